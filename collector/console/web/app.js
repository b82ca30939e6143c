/* The frame: header with views, range and filters, the view, the footer with what arrived. A view is a module of
 * views/ whose default export is
 *
 *   {view: 'top', key: '3', title: 'Processes', uses: ['host', 'name', 'range'], open(root, app) → {update(changed),
 *       close(), …}}
 *       view: the first word of the address         uses: which controls of the header act here
 *       args in the address beyond the view's word name what is shown: for others the view is opened anew
 *       update(changed): changed is null at first, else the set of keys of the state that changed; 'tick' is in it
 *           when live data
 *       is due, 'again' when the user asks for the same once more. fit() is optional: `f`, the range of what is
 *           selected. first(state) of the view, optional: the first question, [name, params]
 *
 * and gets this `app`:
 *   state() set(patch, how) link(patch)       of store.js          go(patch) follows link(patch)          ask(name,
 *       params, signal), askAll     of api.js
 *   params(extra) → range and host of the state as parameters, and extra      filters(extra) → name and idle too
 *   sameRange(answer) → parameters that ask for the range of an answer, when that moves with the newest data
 *   zoom(from, to)   zoom('back')             the range, with the way back
 *   offers(answer)   where data is nearest, and the newest: what to offer for a range without
 *   cover(answer)    the footer tells what of this answer arrived; the head how new it is
 *   say(text)        read out by screen readers                    now() → the collector's time, ms
 * An app is of one view: when that is left, what it asked is given up, and it can change nothing any more. */
import * as api from './api.js';
import { el, put, text } from './el.js';
import { ppm, count } from './format.js';
import { nearest } from './hatch.js';
import { enable, enabled, help, keys } from './keys.js';
import { mark, marks, textOf } from './marks.js';
import { block, busy, retry, sentence } from './panel.js';
import * as store from './store.js';
import { clock, nsMs, parse, RANGES, rfc3339, short, spanMs, spanText } from './time.js';
import compare from './views/compare.js';
import events from './views/events.js';
import fleet from './views/fleet.js';
import host from './views/host.js';
import losses from './views/losses.js';
import process from './views/process.js';
import processes from './views/processes.js';
import rules from './views/rules.js';
import timeline from './views/timeline.js';

const VIEWS = [fleet, host, processes, process, timeline, events, losses, compare, rules];
const LIVE = '2s';
const AGAIN_MS = 5000;
const [head, main, foot, live] = ['head', 'main', 'foot', 'say'].map((id) => document.getElementById(id));
let open = null;
let shown = null;
let home = null;
let paused = false;
let newest = NaN;

const viewOf = (state) => VIEWS.find((v) => v.view === state.view) || VIEWS[0];

const common = {
    state: store.get,
    set: store.set,
    link: store.link,
    now: api.now,
    params: (extra) => ({ ...store.rangeParams(store.get()), host: store.get().host, ...extra }),
    sameRange: (answer) => (store.get().t[0] === '-' && answer ? { until: answer.until_ns } : {}),
    filters: (extra) => common.params({ name: store.get().name, idle: store.get().idle === '1', ...extra }),
    zoom(from, to) {
        const state = store.get();
        if (from === 'back') {
            /* A link to a range has no way back but to the newest data. */
            if (home || state.t[0] !== '-') store.set({ t: home, live: state.live });
            home = null;
            return;
        }
        home ||= state.t;
        /* Round enough for a link to be read, finer than a pixel. */
        const unit = 10 ** Math.max(-3, Math.floor(Math.log10((to - from) / 2000)));
        const round = (ms) => Math.round(ms / unit) * unit;
        store.set({ t: store.formatTime(round(from), round(to)), live: '' });
    },
    offers(answer) {
        const found = nearest(answer.hosts ?? [], nsMs(answer.since_ns), nsMs(answer.until_ns));
        const t = found && store.formatTime(found.from, found.to);
        return [
            t && { text: `Nearest data: ${rangeText({ t })}`, run: () => store.set({ t, live: '' }) },
            store.get().t !== '-15m' && {
                text: 'The newest 15 minutes',
                run: () => store.set({ t: '-15m', live: '' }),
            },
        ].filter(Boolean);
    },
    go(patch) {
        location.hash = store.link(patch);
    },
    cover,
    say(sentence) {
        text(live, sentence);
    },
};

let left = new AbortController();

function appOfView() {
    left.abort();
    left = new AbortController();
    const { signal } = left;
    const here = (signal_) => (signal_ ? AbortSignal.any([signal, signal_]) : signal);
    const app = {
        ...common,
        ask: (name, params, signal_) => api.ask(name, params, here(signal_)),
        askAll: (name, params, signal_) => api.askAll(name, params, here(signal_)),
    };
    for (const name of ['set', 'go', 'zoom', 'cover', 'say']) {
        app[name] = (...args) => (signal.aborted ? undefined : common[name](...args));
    }
    return app;
}

/* -- header -- */

const nav = el('nav', { 'aria-label': 'Views' });
const controls = el('div.controls', { role: 'search', 'aria-label': 'Range and filters' });
const age = el('span.data', { role: 'status', 'aria-live': 'off' });
const rangeButton = el('button.range', {
    type: 'button',
    'aria-haspopup': 'dialog',
    title: 'Range ( [ and ] )',
    onclick: rangeDialog,
});
const liveButton = el('button.live', {
    type: 'button',
    title: 'Ask again every 2 s (space pauses)',
    onclick: toggleLive,
});

function field(name, label, hint) {
    const input = el('input', {
        type: 'search',
        id: 'by-' + name,
        placeholder: hint,
        spellcheck: 'false',
        autocomplete: 'off',
        size: '14',
        onchange: () => common.set({ [name]: input.value.trim(), sel: null }),
        onkeydown: (e) => {
            if (e.key === 'Escape') {
                input.value = store.get()[name];
                input.blur();
            }
        },
    });
    return { input, node: el('label.field', { for: 'by-' + name }, el('span', null, label), input) };
}

const hostField = field('host', 'host', 'all, or web-*');
const nameField = field('name', 'name', 'all, or post*');

function rangeText(state) {
    const t = store.parseTime(state.t);
    if (t.last) return 'last ' + spanText(t.last);
    const day = rfc3339(t.from).slice(0, 10);
    const fine = t.to - t.from < 10e3 ? 1 : 1000;
    const other = rfc3339(t.to).slice(0, 10);
    return `${day} ${clock(t.from, fine)} – ${other === day ? '' : other.slice(5) + ' '}${clock(t.to, fine)}`;
}

function pan(share) {
    const state = store.get();
    const r = store.range(state, Number.isNaN(newest) ? api.now() : newest);
    const by = (r.to - r.from) * share;
    common.zoom(r.from + by, r.to + by);
}

function scale(factor) {
    const state = store.get();
    const r = store.range(state, Number.isNaN(newest) ? api.now() : newest);
    const middle = (r.from + r.to) / 2;
    const half = Math.max(0.5, ((r.to - r.from) * factor) / 2);
    common.zoom(middle - half, middle + half);
}

function otherRange(by) {
    const r = store.range(store.get(), api.now());
    const spans = RANGES.map(spanMs);
    const at = spans.findIndex((s) => s >= r.to - r.from);
    const next = RANGES[Math.max(0, Math.min(RANGES.length - 1, (at < 0 ? RANGES.length - 1 : at) + by))];
    home = null;
    common.set({ t: '-' + next });
}

function toggleLive() {
    const state = store.get();
    paused = false;
    const t = store.parseTime(state.t);
    common.set(state.live ? { live: '' } : { live: LIVE, t: t.last ? state.t : home || '-15m' });
}

const dialog = (title, ...content) => {
    const node = el(
        'dialog',
        { 'aria-label': title, onclose: () => node.remove(), onclick: (e) => e.target === node && node.close() },
        el('h2', null, title),
        content,
        el('form', { method: 'dialog' }, el('button', null, 'Close')),
    );
    document.body.append(node);
    node.showModal();
    return node;
};

function rangeDialog() {
    const r = store.range(store.get(), api.now());
    const fine = r.to - r.from < 10e3 ? 1 : 1000;
    const show = (ms) =>
        rfc3339(Math.round(ms / fine) * fine)
            .replace('T', ' ')
            .replace('Z', '');
    const wrong = el('p.wrong', { role: 'alert' });
    const [from, to] = [
        ['from', r.from],
        ['to', r.to],
    ].map(([name, ms]) => el('input', { value: show(ms), size: '27', name, spellcheck: 'false' }));
    const form = el(
        'form',
        {
            onsubmit: (e) => {
                e.preventDefault();
                const [a, b] = [from, to].map((input) => parse(input.value, api.now()));
                if (!(b > a)) {
                    text(
                        wrong,
                        'Times are 14:03, 2026-11-23 14:03:12.5 or -2h (UTC), and the first comes before the second.',
                    );
                    return;
                }
                home = null;
                common.set({ t: store.formatTime(a, b), live: '' });
                node.close();
            },
        },
        el('label', null, 'from ', from),
        el('label', null, ' to ', to),
        ' UTC ',
        el('button', null, 'Show'),
        wrong,
    );
    const node = dialog(
        'Range',
        el(
            'p.presets',
            null,
            RANGES.map((span) =>
                el(
                    'button',
                    {
                        type: 'button',
                        onclick: () => {
                            home = null;
                            common.set({ t: '-' + span });
                            node.close();
                        },
                    },
                    'last ' + span,
                ),
            ),
        ),
        form,
    );
}

function helpDialog() {
    const on = el('input', { type: 'checkbox', checked: enabled(), onchange: () => enable(on.checked) });
    dialog(
        'Keys',
        el(
            'div.keys',
            null,
            help().map(([group, rows]) =>
                el(
                    'div',
                    null,
                    el('h3', null, group),
                    el(
                        'dl',
                        null,
                        rows.map(([key, what]) => [el('dt', null, el('kbd', null, key)), el('dd', null, what)]),
                    ),
                ),
            ),
        ),
        el('p', null, el('label', null, on, ' single keys act')),
        el(
            'p.dim',
            null,
            'On plots: drag zooms in, shift and drag pans, the wheel zooms at the pointer, a double click goes back. ' +
                'On tables: arrows move the selection, Enter opens. Times are UTC.',
        ),
    );
}

function frame() {
    put(
        head,
        el('b#brand', null, 'procfleet'),
        nav,
        el('span.space'),
        age,
        el(
            'button.help',
            { type: 'button', 'aria-label': 'Keys and help', title: 'Keys ( ? )', onclick: helpDialog },
            '?',
        ),
        controls,
    );
    main.before(unread);
    put(
        controls,
        rangeButton,
        el('button', { type: 'button', 'aria-label': 'Earlier', title: 'Earlier (←)', onclick: () => pan(-0.5) }, '◀'),
        el('button', { type: 'button', 'aria-label': 'Later', title: 'Later (→)', onclick: () => pan(0.5) }, '▶'),
        liveButton,
        hostField.node,
        nameField.node,
    );
}

function header(state) {
    const view = viewOf(state);
    put(
        nav,
        VIEWS.map((v) =>
            el(
                'a',
                {
                    href: store.link({ view: v.view, args: v.args?.(state) || [] }),
                    title: `${v.title} ( ${v.key} )`,
                    'aria-current': v === view ? 'page' : null,
                },
                v.title,
            ),
        ),
    );
    text(rangeButton, rangeText(state) + ' ▾');
    text(liveButton, state.live ? (paused ? 'paused' : 'live ●') : 'live ○');
    liveButton.setAttribute('aria-pressed', String(Boolean(state.live)));
    if (document.activeElement !== hostField.input) hostField.input.value = state.host;
    if (document.activeElement !== nameField.input) nameField.input.value = state.name;
    const uses = new Set(view.uses);
    for (const node of controls.children) node.hidden = false;
    for (const node of [...controls.children].slice(0, 4)) node.hidden = !uses.has('range');
    hostField.node.hidden = !uses.has('host');
    nameField.node.hidden = !uses.has('name');
    document.title = [...state.args, view.title].join(' · ') + ' · procfleet';
}

/* -- footer -- */

const unread = el('div.bar#unread', { role: 'alert', hidden: true });

/* A link that cannot be read shows something else than was meant: that is said. */
function tellUnread(state) {
    unread.hidden = !state.unread.length;
    const what = state.unread.map((s) => [' ', el('code', null, s.slice(0, 80))]);
    put(unread, el('b', null, 'The link cannot be read:'), what, `. Shown is: ${viewOf(state).title}`);
    if (viewOf(state).uses.includes('range')) unread.append(`, ${rangeText(state)}.`);
}

const coverage = el('a.coverage');
const who = el('span.who');

function cover(answer) {
    const c = answer.coverage;
    if (answer.hosts?.length) {
        const times = answer.hosts.map((h) => nsMs(h.last_ns)).filter((ms) => ms > 0);
        newest = times.length ? times.reduce((a, b) => Math.max(a, b)) : newest;
    }
    tellAge();
    if (!c) return;
    const lost = [];
    let where = '';
    if (c.lost_events) lost.push(`${c.at_most ? '≤ ' : ''}${count(c.lost_events)} events lost`);
    if (c.lost_ticks) lost.push(`${count(c.lost_ticks)} samples lost`);
    const worst = (c.hosts || [])
        .filter((h) => h.ppm < 1e6 && (h.spans?.length || h.missing))
        .sort((a, b) => a.ppm - b.ppm)[0];
    if (worst) {
        const span = worst.spans?.[0];
        const when = span ? ` ${clock(nsMs(span.first_ns), 1000)}–${clock(nsMs(span.last_ns), 1000)}` : '';
        const others = c.hosts.filter((h) => h !== worst && h.ppm < 1e6).length;
        where = ` on ${answer.hosts?.[worst.host]?.name}${when}${others ? ` and ${count(others)} more hosts` : ''}`;
    }
    const from = Object.keys(answer.used || {}).filter((tier) => answer.used[tier] > 0);
    const line = /^coverage [^,]*(,.*)$/.exec(c.hosts?.length ? '' : (answer.notes?.at(-1) ?? ''));
    put(
        coverage,
        el('b', null, `coverage ${c.at_most ? '≤ ' : ''}${ppm(c.ppm)}`),
        line ? line[1] : lost.length ? ', ' + lost.join(', ') + where : where,
        from.length ? el('span.dim', null, ' · from ' + from.join(', ')) : '',
    );
    coverage.href = store.link({ view: 'losses', t: store.get().t });
    coverage.classList.toggle('lossy', c.ppm < 1e6);
}

function tellAge() {
    const state = store.get();
    if (!api.link.up) put(age, el('b.bad', null, 'no answer for ' + short(Date.now() - api.link.since)));
    else if (Number.isNaN(newest)) put(age);
    else put(age, `data to ${clock(newest, 1000)}, ${short(Math.max(0, api.now() - newest))} ago`);
    age.classList.toggle('old', state.live !== '' && api.now() - newest > 15e3);
}

function footer() {
    const w = api.session.who;
    put(foot, coverage, el('span.space'), who);
    put(
        who,
        w
            ? [
                  [w.name, w.role, w.scope, 'procfleet ' + w.version, ''].filter((s, i) => s || i === 4).join(' · '),
                  el('button.link', { type: 'button', onclick: () => api.logout() }, 'log out'),
              ]
            : null,
    );
}

/* -- views -- */

function show(state, changed) {
    const view = viewOf(state);
    document.querySelector('dialog[open]')?.close();
    header(state);
    tellUnread(state);
    const what = [view.view, ...state.args].join('/');
    if (what !== shown) {
        open?.close();
        put(main);
        put(coverage);
        coverage.removeAttribute('href');
        newest = NaN;
        shown = what;
        open = view.open(main, appOfView());
        open.update(null);
    } else {
        open.update(changed);
    }
}

function loggedOut() {
    open?.close();
    left.abort();
    open = shown = null;
    put(
        main,
        el(
            'section.panel.login',
            null,
            el('h2', null, 'Not logged in'),
            el('p', null, api.session.why || 'This browser has no session with the console.'),
            el(
                'p',
                null,
                'Run ',
                el('code', null, 'procfleet console'),
                ' and open the link it prints; a link works once, for 60 seconds.',
            ),
            el('p', null, el('button', { type: 'button', onclick: () => location.reload() }, 'Try again')),
        ),
    );
    header(store.get());
    put(coverage);
    put(who);
}

function markView() {
    const text = mark(store.get(), Number.isNaN(newest) ? api.now() : newest);
    common.say(`Marked ${text.split('|').pop()}; d compares with it.`);
    header(store.get());
}

/* The last mark is A, what is shown is B; of a view that was just marked, the mark before it is A. */
function compareViews() {
    if (store.get().view === 'diff') return;
    const known = marks();
    const b = textOf(store.get(), Number.isNaN(newest) ? api.now() : newest);
    const a = known.find((m) => m !== b) ?? '';
    location.hash = store.link({ view: 'diff', a, b });
}

function nextView(key) {
    const view = VIEWS.find((v) => v.key === key);
    if (!view) return false;
    common.go({ view: view.view, args: view.args?.(store.get()) || [] });
    return true;
}

keys({
    ...Object.fromEntries(VIEWS.map((v) => [v.key, [v.title, () => nextView(v.key), 'views']])),
    '[': ['shorter range', () => otherRange(-1), 'time'],
    ']': ['longer range', () => otherRange(1), 'time'],
    '+': ['zoom in', () => scale(0.5), 'time'],
    '-': ['zoom out', () => scale(2), 'time'],
    ArrowLeft: ['earlier', () => pan(-0.25), 'time'],
    ArrowRight: ['later', () => pan(0.25), 'time'],
    0: ['whole range', () => common.zoom('back'), 'time'],
    f: ['fit to what is selected', () => (open?.fit ? open.fit() : false), 'time'],
    ' ': [
        'pause, go on',
        () => {
            if (!store.get().live) return toggleLive();
            paused = !paused;
            return header(store.get());
        },
        'time',
    ],
    h: ['host', () => hostField.input.select(), 'filters'],
    '/': ['name', () => (nameField.node.hidden ? hostField : nameField).input.select(), 'filters'],
    i: ['idle processes too', () => common.set({ idle: store.get().idle ? '' : '1' }), 'filters'],
    '.': ['mark hosts and range', markView, 'page'],
    d: ['compare with the last mark', compareViews, 'page'],
    Escape: [
        'back',
        () => {
            const d = document.querySelector('dialog[open]');
            if (d) d.close();
            else if (store.get().sel) common.set({ sel: null });
            else history.back();
        },
        'page',
    ],
    '?': ['this help', helpDialog, 'page'],
    F1: ['', helpDialog],
});

/* Live: asked again when the last answers are there, and only by a tab that is seen. */
let due = 0; /* of performance.now(): a clock that is set back stops nothing */
let tried = 0;
const again = () => open?.update(new Set(['again']));
retry.run = again;
setInterval(() => {
    tellAge();
    const state = store.get();
    if (!api.link.up && open && !document.hidden && !busy() && performance.now() > tried) {
        tried = performance.now() + AGAIN_MS;
        again();
        return;
    }
    if (!open || !state.live || paused || document.hidden || busy() || performance.now() < due) return;
    due = performance.now() + Math.max(spanMs(state.live), open.step?.() ?? 0);
    open.update(new Set(['tick']));
}, 500);

async function begin() {
    frame();
    header(store.get());
    const first = viewOf(store.get()).first?.(store.get());
    if (first) api.ahead(...first);
    try {
        await api.start();
    } catch (e) {
        put(main, block('failed', sentence(e.message), [{ text: 'Try again', run: begin }]));
        return;
    }
    footer();
    if (api.session.state === 'in') show(store.get(), null);
    else loggedOut();
}

store.listen();
store.on((state, changed) => {
    if (api.session.state === 'in') show(state, changed);
});
api.on(() => {
    tellAge();
    if (api.session.state === 'out' && open) loggedOut();
});
begin();
