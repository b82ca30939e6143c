/* Events: what started, ended or was loaded, and what agents tell of themselves. A strip of their density over the
 * range, a list of them, newest first, and in live mode those that come, with every hole in their sequence as a row. */
import { band } from '../band.js';
import { el } from '../el.js';
import { count, NONE } from '../format.js';
import { drawLoss, drawNothing, holes, lossRuns, nothings, seriesOf } from '../hatch.js';
import { keys } from '../keys.js';
import { panel } from '../panel.js';
import { stream } from '../stream.js';
import { table } from '../table.js';
import { clock, full, nsMs, rfc3339 } from '../time.js';
import { exitText } from './timeline.js';

const PAGE = 1000;
const MOST = 4 * PAGE; /* of a window; more are looked at more finely */
const PAGES = 8;
const ROUNDS = 5;
const FINE = 240; /* buckets */
const KEPT = 20000; /* rows of a live list */
const KINDS = {
    process: ['starts and ends', '▶'],
    level: ['level', '◆'],
    source: ['source', '●'],
    thread: ['threads', '┆'],
    image: ['images', '▣'],
};
const SIGNS = { process_start: '▶', process_stop: '■', level: '◆', source: '●' };
const USUAL = 'process,level,source';
const HEIGHT = 74;

/* Starts up, ends down, level and source as marks; what did not arrive is hatched. */
function strip(g, at, { density, losses, marks }) {
    const base = Math.round((at.top + at.bottom) / 2);
    const most = density.starts.concat(density.ends).reduce((a, b) => Math.max(a, b), 1);
    const bars = (values, up) => {
        values.forEach((v, i) => {
            const x0 = Math.round(at.x(density.t0_ms + i * density.step_ms));
            const x1 = Math.round(at.x(density.t0_ms + (i + 1) * density.step_ms));
            const h = Math.max(1, ((at.bottom - at.top) / 2 - 4) * (v / most));
            if (v > 0) g.fillRect(x0, up ? base - h : base + 1, Math.max(1, x1 - x0 - (x1 - x0 > 3)), h);
        });
    };
    g.fillStyle = at.t.dim;
    bars(density.starts, true);
    g.fillStyle = at.t.select;
    bars(density.ends, false);
    g.fillStyle = at.t.grid;
    g.fillRect(0, base, at.width, 1);
    for (const l of losses) {
        const [x0, x1] = [Math.max(0, at.x(l.from)), Math.min(at.width, at.x(l.until))];
        if (l.kind === 'lost') drawLoss(g, x0, at.top, x1 - x0, at.bottom - at.top, l.ppm, l.atMost);
        else drawNothing(g, x0, at.top, x1 - x0, at.bottom - at.top, l.text);
    }
    g.fillStyle = at.t.bad;
    for (const e of marks) g.fillText(SIGNS[e.kind], at.x(e.time_ms) - 4, base);
    g.fillStyle = at.t.dim;
    g.fillText('starts', 4, at.top + 8);
    g.fillText('ends', 4, at.bottom - 7);
}

/* As the interface takes it, to the nanosecond. */
const moment = (ns) => full(ns).replace(' ', 'T') + 'Z';

const identity = (e) => `${e.time_ns} ${e.pid} ${e.kind} ${e.tid ?? ''}`;

function textOf(e) {
    if (e.text) return e.text;
    return e.command ?? e.path ?? '';
}

function open(root, app) {
    const chips = Object.entries(KINDS).map(([kind, [words, sign]]) =>
        el('button.chip', { type: 'button', dataset: { kind }, onclick: () => toggle(kind) }, `${sign} ${words}`),
    );
    const density = panel(root, { title: 'Starts and ends', height: HEIGHT + 'px' });
    const label = 'Starts and ends over the range';
    const picture = band(density.body, app, { height: HEIGHT, label, paint: strip });
    const p = panel(root, { title: 'Events', tools: chips, height: '16rem' });
    const more = el('button.more', { type: 'button', hidden: true, onclick: older }, 'older events');
    let list = [];
    let range = { from: 0, until: 0 };
    let oldest = 0; /* from here on events are in the list, ms */
    let serial = 0;
    let edition = 0; /* of the list: what was asked for an older one does not come into it */
    let stopLive = null;

    const kindsOf = () => (app.state().kinds || USUAL).split(',').filter((k) => Object.hasOwn(KINDS, k));
    const hostName = (e) => e.hostName ?? '';
    const pathOf = (e) =>
        e.pid && e.start ? app.link({ view: 'p', args: [hostName(e), `${e.pid}.${e.start}`] }) : null;
    const link = (e, text) => (pathOf(e) ? el('a', { href: pathOf(e), tabindex: '-1' }, text) : text);

    const t = table(p.body, {
        label: 'Events',
        key: (e) => String(e.serial),
        sort: '-time',
        height: 'calc(100vh - 20rem)',
        onSelect: (e) => {
            app.set({ at: e.gap ? null : e.time_ns }, { replace: true });
            app.say(e.gap ? e.gap : `${e.kind} ${e.name ?? ''} ${e.pid ?? ''} at ${clock(e.time_ms, 1)}`);
        },
        onOpen: (e) => pathOf(e) && (location.hash = pathOf(e)),
        mark: (e, tr) => e.gap && tr.classList.add('hole'),
        columns: [
            {
                key: 'time',
                title: 'TIME',
                width: '17ch',
                cell: (e) => (e.gap ? '' : el('span', { title: full(e.time_ns) }, clock(e.time_ms, 1))),
                sort: (e) => e.time_ms + e.serial / 1e9,
                plain: (e) => (e.gap ? '' : full(e.time_ns)),
            },
            { key: 'host', title: 'HOST', width: '16ch', cell: hostName, cut: true },
            {
                key: 'kind',
                title: 'EVENT',
                width: '18ch',
                cell: (e) => (e.gap ? '⚠ gap' : `${SIGNS[e.kind] ?? '·'} ${e.kind}`),
            },
            { key: 'pid', title: 'PID', width: '10ch', right: true, cell: (e) => (e.gap ? '' : (e.pid ?? NONE)) },
            {
                key: 'name',
                title: 'NAME',
                width: '20ch',
                cell: (e) => (e.gap ? '' : link(e, e.name ?? NONE)),
                cut: true,
            },
            {
                key: 'parent',
                title: 'PPID',
                width: '10ch',
                right: true,
                cell: (e) => (e.gap ? '' : (e.parent ?? NONE)),
            },
            {
                key: 'exit',
                title: 'EXIT',
                width: '13ch',
                right: true,
                cell: (e) =>
                    e.gap || e.kind !== 'process_stop'
                        ? ''
                        : e.exit_code
                          ? el('b.bad', null, '✕ ' + exitText(e.exit_code))
                          : exitText(e.exit_code),
            },
            { key: 'text', title: 'TEXT', wide: true, cell: (e) => (e.gap ? el('b.warn', null, e.gap) : textOf(e)) },
        ],
    });
    p.body.append(more);

    function toggle(kind) {
        const now = new Set(kindsOf());
        if (!now.delete(kind)) now.add(kind);
        const next = Object.keys(KINDS).filter((k) => now.has(k));
        app.set({ kinds: next.length ? next.join(',') : USUAL });
    }

    const numbered = (events) => events.map((e) => ({ ...e, serial: serial++ }));

    function show() {
        t.rows(list);
        const state = app.state().live ? ', live' : '';
        p.note(`${count(list.filter((e) => !e.gap).length)}${more.hidden ? '' : ' newest'}${state}`);
    }

    const params = (extra) => app.filters({ kinds: kindsOf().join(','), idle: '', limit: PAGE, ...extra });

    /* The interface gives events from the earliest on; the newest are wanted. The density of starts and ends says from
     * when on there are about a page of them. */
    async function windowBefore(end, density, signal) {
        let from = range.from;
        for (let round = 0, d = density; round < ROUNDS; round++) {
            d ||= (
                await app.ask('lifetimes', within(from, end, { max: 1, buckets: FINE, kinds: '', limit: '' }), signal)
            ).lifetimes.density;
            let sum = 0;
            let i = Math.min(d.starts.length, Math.ceil((end - d.t0_ms) / d.step_ms));
            while (i > 0 && sum < PAGE) sum += d.starts[--i] + d.ends[i];
            from = Math.max(from, d.t0_ms + i * d.step_ms);
            if (sum <= MOST || d.step_ms <= 1) break;
            d = null;
        }
        return from;
    }

    const within = (from, to, extra) => params({ last: '', since: rfc3339(from), until: rfc3339(to), ...extra });

    async function pages(from, to, signal) {
        let answer = await app.ask('events', within(from, to), signal);
        const first = answer;
        let events = named(answer);
        for (let n = 1; answer.more && answer.cursor && n < PAGES; n++) {
            answer = await app.ask('events', within(from, to, { cursor: answer.cursor }), signal);
            events = events.concat(named(answer));
        }
        return { ...first, events };
    }

    const named = (answer) => answer.events.map((e) => ({ ...e, hostName: answer.hosts[e.host]?.name }));

    async function older() {
        more.disabled = true;
        const mine = edition;
        try {
            const from = await windowBefore(oldest, null);
            const { events } = await pages(from, oldest);
            if (mine !== edition) return;
            oldest = from;
            list = list.concat(numbered(events));
            more.hidden = oldest <= range.from;
            show();
        } catch (e) {
            if (!e.code) throw e;
            p.note(e.message);
        } finally {
            more.disabled = false;
        }
    }

    function first(answer) {
        edition++;
        list = numbered(answer.events);
        more.hidden = oldest <= range.from;
        app.cover(answer);
        show();
        const chosen = list.find((e) => e.time_ns === app.state().at);
        t.select(chosen ? String(chosen.serial) : null, { reveal: true });
    }

    /* -- live -- */

    function arrived(events) {
        const wanted = kindsOf();
        const fits = events.filter((e) => wanted.some((k) => e.kind === k || e.kind.startsWith(k + '_')));
        list = numbered(fits).concat(list).slice(0, KEPT);
        show();
    }

    /* When the newest event was, as the interface takes it. */
    function lately(otherwise) {
        const newest = list.reduce((a, e) => (e.gap || (a && a.time_ms >= e.time_ms) ? a : e), null);
        return newest ? moment(newest.time_ns) : otherwise;
    }

    /* A hole is a row. What the stream lost may lie in the store: it is asked there for the time of the hole. */
    async function hole(lost) {
        const since = lately('1m');
        const row = { gap: `${count(lost)} messages missing, asking again`, serial: serial++, time_ms: app.now() };
        const mine = edition;
        list = [row, ...list];
        show();
        try {
            const answer = await app.ask('events', params({ last: '', since, until: '' }));
            if (mine !== edition) return;
            const known = new Set(list.map(identity));
            const found = named(answer).filter((e) => !known.has(identity(e)));
            if (found.length)
                row.gap = `${count(lost)} messages missed; the store had ${count(found.length)} events of that time`;
            else row.gap = `${count(lost)} messages lost`;
            list = list.concat(numbered(found));
        } catch (e) {
            if (!e.code) throw e;
            row.gap = `${count(lost)} messages lost`;
        }
        show();
    }

    /* Without a stream (no journal, no place left) the store is asked at every tick. */
    let down = false;

    function heard(m) {
        if (m.type === 'gap') hole(m.lost);
        if (m.type === 'update') {
            arrived(m.updates.flatMap((u) => (u.events ?? []).map((e) => ({ ...e, hostName: u.name }))));
        }
        down = m.type === 'down';
        density.note(down ? `no stream (${m.message}): asked anew instead` : 'updates come as they happen');
    }

    async function missed() {
        const mine = edition;
        const answer = await app.ask('events', params({ last: '', since: lately('2s'), until: '' }));
        if (mine !== edition) return;
        const known = new Set(list.map(identity));
        arrived(named(answer).filter((e) => !known.has(identity(e))));
    }

    function goLive() {
        stopLive?.();
        stopLive = null;
        density.note('');
        if (app.state().live) stopLive = stream({ host: app.state().host, name: app.state().name }, heard);
    }

    const nothing = (answer) =>
        answer.events.length || app.state().live
            ? null
            : {
                  text: 'No such events in this range.',
                  offers: [
                      ...app.offers(answer),
                      ...(app.state().kinds
                          ? [{ text: 'Show the usual kinds', run: () => app.set({ kinds: null }) }]
                          : []),
                      ...(app.state().name ? [{ text: 'Show all names', run: () => app.set({ name: null }) }] : []),
                  ],
              };

    async function marks(signal) {
        const answer = await app.ask('events', app.params({ kinds: 'level,source', limit: 500 }), signal);
        return answer.events;
    }

    async function update(changed) {
        for (const chip of chips) chip.setAttribute('aria-pressed', String(kindsOf().includes(chip.dataset.kind)));
        if (changed?.size && [...changed].every((key) => ['at', 'sel', 'sort'].includes(key))) return;
        const tick = changed?.has('tick');
        if (!tick) goLive();
        const buckets = Math.min(480, Math.max(60, Math.floor(root.clientWidth / 4)));
        const seen = await density.load(
            async (signal) => {
                const ask = app.ask('lifetimes', app.filters({ max: 1, buckets }), signal);
                const [answer, some] = await Promise.all([ask, marks(signal)]);
                return { ...answer, marks: some, partial: false };
            },
            (answer) => {
                const d = answer.lifetimes.density;
                const series = seriesOf(d);
                const losses = lossRuns(series, answer.hosts)
                    .map((r) => ({ ...r, until: r.to, kind: 'lost' }))
                    .concat(holes(series, answer.hosts).within);
                range = { from: nsMs(answer.since_ns), until: nsMs(answer.until_ns) };
                picture.show({ density: d, losses: losses.concat(nothings(answer)), marks: answer.marks, ...range });
            },
        );
        if (!seen || (tick && !down)) return;
        if (tick) {
            await missed();
            return;
        }
        await p.load(
            async (signal) => {
                oldest = await windowBefore(range.until, seen.lifetimes.density, signal);
                return pages(oldest, range.until, signal);
            },
            first,
            { empty: nothing },
        );
    }

    const stop = keys({
        ArrowDown: ['next event', () => t.grid.focus(), 'selection'],
        ...Object.fromEntries(
            Object.keys(KINDS).map((kind) => [kind[0].toUpperCase(), [KINDS[kind][0], () => toggle(kind), 'filters']]),
        ),
    });

    return {
        update,
        close() {
            stop();
            stopLive?.();
            density.close();
            picture.close();
            p.close();
            t.close();
        },
    };
}

export default { view: 'events', key: '6', title: 'Events', uses: ['host', 'name', 'range'], open };
