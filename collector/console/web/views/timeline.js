/* Timeline: when what lived. Every process of the range is a bar, the short ones too; the same as a table, and the one
 * that is selected in a panel with its parents. */
import { ofName, REST, theme } from '../colour.js';
import { el, put } from '../el.js';
import { count, NONE } from '../format.js';
import { holes, lossRuns, nothings, polled, stretches } from '../hatch.js';
import { keys } from '../keys.js';
import { ancestors, END_INFERRED, EXACT, load, START_UNKNOWN } from '../lanes.js';
import { lanesPlot } from '../lanes_plot.js';
import { panel } from '../panel.js';
import { groupsOf, rowsOf } from '../rows.js';
import { table } from '../table.js';
import { clock, compact, fromCompact, full, nsMs, short } from '../time.js';

const BUCKETS = 300; /* of CPU */
const STARTS = 240; /* of the density of starts */
const TOP = 12;
const MAX = 20000;
const SHORT_MS = 20;
const TURNS = 450; /* live: asked anew after this part of the range, 2 s at least */
const GROUPS = { image: 'image', tree: 'tree', user: 'user', host: 'host' };
const COLOURS = { image: 'image', cpu: 'CPU', exit: 'exit code' };

/* Codes of Windows are known by their hexadecimal form. */
export function exitText(code) {
    if (code === null || code === undefined) return NONE;
    return Math.abs(code) > 0xffff ? '0x' + (code >>> 0).toString(16) : String(code);
}

const startText = (d, i) => (d.flags[i] & START_UNKNOWN ? '≤ ' : '') + clock(d.t0 + d.start[i], 1);

function endText(d, i) {
    if (d.unknown[i]) return d.end[i] > d.start[i] ? `seen until ${clock(d.t0 + d.end[i], 1)}` : 'not known';
    return d.end[i] === Infinity ? 'lives' : (d.flags[i] & END_INFERRED ? '≈ ' : '') + clock(d.t0 + d.end[i], 1);
}

function lifeText(d, i) {
    if (d.unknown[i]) return d.end[i] > d.start[i] ? '> ' + short(d.end[i] - d.start[i]) : NONE;
    return d.end[i] === Infinity ? '> ' + short(d.range[1] - d.start[i]) : short(d.end[i] - d.start[i]);
}

function parentText(d, i) {
    const p = d.parent[i];
    return p > 0 ? `${d.names[d.name[p - 1]]} ${d.pid[p - 1]}` : p < 0 ? String(-p) : NONE;
}

const exitCell = (d, i) => (d.failed[i] ? el('b.bad', null, '✕ ' + exitText(d.exit[i])) : exitText(d.exit[i]));

/* What a link names a process by. */
const nameOf = (d, i) => `${d.hosts[d.host[i]]}/${d.pid[i]}/${compact(d.t0 + d.start[i])}`;

function rowOf(d, sel) {
    const [host, pid, start] = (sel || '').split('/');
    const at = fromCompact(start) - d.t0;
    for (let i = 0; i < d.n; i++) {
        if (d.pid[i] === Number(pid) && Math.abs(d.start[i] - at) < 0.01 && d.hosts[d.host[i]] === host) return i;
    }
    return -1;
}

/* "4,806 started or ended, 102 ran throughout, 2,346 lived less than 20 ms, 153 ended with a code other than 0" */
export function summary(d) {
    let [changed, brief, failed] = [0, 0, 0];
    for (let i = 0; i < d.n; i++) {
        changed += d.start[i] > d.range[0] || d.end[i] < d.range[1] || d.unknown[i] ? 1 : 0;
        brief += !d.unknown[i] && d.end[i] - d.start[i] < SHORT_MS ? 1 : 0;
        failed += d.failed[i];
    }
    const parts = [
        `${count(changed)} started or ended`,
        `${count(d.n - changed)} ran throughout`,
        `${count(brief)} lived less than ${SHORT_MS} ms`,
        `${count(failed)} ended with a code other than 0`,
    ];
    if (d.leftOut) parts.push(`${count(d.leftOut)} more are only in the density of starts`);
    return parts.join(', ');
}

export function tipOf(d, i) {
    const cpu = d.cpu[i] === null ? NONE : short(d.cpu[i]);
    return [
        `${d.names[d.name[i]]} ${d.pid[i]}   ${d.hosts[d.host[i]]}`,
        `${startText(d, i)} – ${endText(d, i)}   ${lifeText(d, i)}`,
        `exit ${exitText(d.exit[i])}   CPU ${cpu}   parent ${parentText(d, i)}`,
    ].join('\n');
}

/* The one process: its pid, on its host, in the moments it lived and was asked for. */
function exactly(d, i) {
    const time = (ms) => new Date(ms).toISOString();
    const until = d.t0 + Math.min(d.end[i], d.range[1]);
    return {
        host: d.hosts[d.host[i]],
        pid: d.pid[i],
        since: time(Math.floor(d.t0 + Math.max(d.start[i], d.range[0])) - 1000),
        until: time(Math.ceil(until) + 1000),
        exited: true,
        idle: true,
        limit: 8,
    };
}

/* Goes to the view of a process that is a row of lifetimes: its whole name has to be asked for. */
export async function openRow(app, d, i) {
    try {
        const row = rowsOf(await app.ask('processes', exactly(d, i)))[0];
        if (row) app.set({ view: 'p', args: [row.host.name, `${row.pid}.${row.start}`] });
        else app.say('Nothing is kept of this process but its start and end.');
    } catch (e) {
        if (!e.code) throw e;
        app.say(e.message);
    }
}

/* Thin bars need the lighter shade on a dark ground. */
export function colour(name) {
    const c = name === null ? REST : ofName(name);
    return theme().dark ? c.line : c.fill;
}

function seriesOf(answer) {
    const step = Number(answer.series.step_ns) / 1e6;
    return {
        t0: answer.series.t0_ms,
        step,
        n: answer.series.n,
        reaches: answer.series.reaches,
        groups: groupsOf(answer, 'cpu_percent', 'image').map((g) => ({
            label: g.label,
            colour: colour(g.name),
            avg: g.values,
        })),
        losses: lossRuns(answer.series, answer.hosts)
            .map((r) => ({ ...r, until: r.to, kind: 'lost', host: -1 }))
            .concat(nothings(answer))
            .concat(holes(answer.series, answer.hosts).within.map((n) => ({ ...n, kind: 'none', host: -1 }))),
    };
}

function open(root, app) {
    const choice = (key, label, words) =>
        el(
            'label.choice',
            null,
            label + ' ',
            el(
                'select',
                { 'aria-label': label, id: 'timeline-' + key, onchange: (e) => app.set({ [key]: e.target.value }) },
                Object.entries(words).map(([value, text]) => el('option', { value }, text)),
            ),
        );
    const fold = el('button', { type: 'button', onclick: () => plot.foldAll(), hidden: true }, 'fold all');
    const tools = [choice('group', 'group by', GROUPS), choice('colour', 'colour by', COLOURS), fold];
    const p = panel(root, { title: 'Processes', tools, height: '24rem' });
    const plot = lanesPlot({
        colour,
        onRange: (from, until) => app.zoom(from, until),
        onBack: () => app.zoom('back'),
        onSelect: (row) => choose(row),
        tip,
    });
    p.body.append(plot.node);
    const side = panel(root, { title: 'Selected', height: '6rem', kind: 'chosen' });
    const rows = el('details', null, el('summary', null, 'The same as a table'));
    root.append(rows);
    let d = null;
    let answered_ms = 0;

    const t = table(rows, {
        label: 'Processes of the range',
        key: (i) => String(i),
        sort: app.state().sort || 'start',
        onSort: (sort) => app.set({ sort }, { replace: true }),
        onSelect: (i) => choose(i),
        onOpen: (i) => openProcess(i),
        columns: [
            {
                key: 'name',
                title: 'NAME',
                wide: true,
                cell: (i) => d.names[d.name[i]],
                sort: (i) => d.names[d.name[i]],
            },
            { key: 'pid', title: 'PID', width: '9ch', right: true, cell: (i) => d.pid[i], sort: (i) => d.pid[i] },
            {
                key: 'host',
                title: 'HOST',
                width: '16ch',
                cell: (i) => d.hosts[d.host[i]],
                sort: (i) => d.hosts[d.host[i]],
            },
            { key: 'start', title: 'START', width: '16ch', cell: (i) => startText(d, i), sort: (i) => d.start[i] },
            {
                key: 'end',
                title: 'END',
                width: '16ch',
                cell: (i) => endText(d, i),
                sort: (i) => (d.unknown[i] ? null : d.end[i]),
            },
            {
                key: 'life',
                title: 'LIFE',
                width: '12ch',
                right: true,
                cell: (i) => lifeText(d, i),
                sort: (i) => (d.unknown[i] ? null : d.end[i] - d.start[i]),
            },
            {
                key: 'exit',
                title: 'EXIT',
                width: '13ch',
                right: true,
                cell: (i) => exitCell(d, i),
                sort: (i) => d.exit[i],
            },
            {
                key: 'cpu',
                title: 'CPU',
                width: '10ch',
                right: true,
                cell: (i) => (d.cpu[i] === null ? NONE : short(d.cpu[i])),
                sort: (i) => d.cpu[i],
            },
            { key: 'parent', title: 'PARENT', width: '20ch', cell: (i) => parentText(d, i) },
            { key: 'user', title: 'USER', width: '12ch', cell: (i) => userText(i) },
        ],
    });

    const userText = (i) => (d.user ? (d.names[d.user[i]] ?? NONE) : NONE);
    const title = (i) => `${d.names[d.name[i]]} ${d.pid[i]}`;

    function sentence(i) {
        const exit = d.exit[i] === null ? '' : `, code ${exitText(d.exit[i])}`;
        return `${title(i)} on ${d.hosts[d.host[i]]}, started ${startText(d, i)}, life ${lifeText(d, i)}${exit}`;
    }

    function tip(h) {
        if (h.through) {
            const names = [...new Set(h.through.map((i) => d.names[d.name[i]]))];
            return `${h.through.length} ran throughout: ${names.slice(0, 8).join(', ')}${names[8] ? ', …' : ''}`;
        }
        if (h.over !== undefined) return h.over ? `${h.over} of ${h.band.hidden} here: zoom in to see them apart` : '';
        return h.row < 0 ? '' : tipOf(d, h.row);
    }

    /* From the plot, the table or the panel; all of them follow. */
    function choose(i) {
        app.set({ sel: i < 0 ? null : nameOf(d, i) }, { replace: true });
        if (i >= 0) app.say(sentence(i));
    }

    const openProcess = (i) => openRow(app, d, i);

    function refused(e) {
        if (!e.code) throw e;
        app.say(e.message);
    }

    const fact = (k, ...v) => el('span', null, el('span.k', null, k), v);
    const pick = (i) => el('button.link', { type: 'button', onclick: () => choose(i) }, title(i));

    function chain(i) {
        return ancestors(d, i).map((a) => [' ← ', a.row === undefined ? String(a.pid) : pick(a.row)]);
    }

    function facts(i, row) {
        const info = row?.info;
        const moment = (ms) => full(ms).slice(11);
        const path = row ? app.link({ view: 'p', args: [row.host.name, `${row.pid}.${row.start}`] }) : null;
        put(
            side.body,
            el(
                'div.facts',
                null,
                fact('process', el('b', null, path ? el('a', { href: path }, title(i)) : title(i)), chain(i)),
                fact(
                    'host',
                    el('a', { href: app.link({ view: 'h', args: [d.hosts[d.host[i]]] }) }, d.hosts[d.host[i]]),
                ),
                fact('start', (d.flags[i] & START_UNKNOWN ? 'at or before ' : '') + moment(d.t0 + d.start[i])),
                fact(
                    'end',
                    d.unknown[i] || d.end[i] === Infinity ? endText(d, i) : moment(d.t0 + d.end[i]),
                    d.flags[i] & END_INFERRED ? ' (≈ inferred: nothing told of it)' : '',
                ),
                fact('life', lifeText(d, i)),
                fact('exit code', exitCell(d, i)),
                fact('CPU', d.cpu[i] === null ? NONE : short(d.cpu[i]), d.flags[i] & EXACT ? ' (exact totals)' : ''),
                fact('user', userText(i)),
                info?.path ? fact('image', info.path) : null,
            ),
            info?.command ? el('p.command.mono', null, info.command) : null,
        );
    }

    function details(i) {
        if (i < 0) {
            side.close();
            put(side.body, el('p.dim', null, 'Click a bar, or press an arrow key, to see its process here.'));
            return;
        }
        facts(i, null);
        side.load(
            /* What is missing of the range is said above. */
            async (signal) => ({ ...(await app.ask('processes', exactly(d, i), signal)), partial: false }),
            (answer) => {
                const near = rowsOf(answer).filter((r) => r.pid === d.pid[i]);
                const started = (r) => nsMs(r.info.start_ns);
                facts(i, near.find((r) => Math.abs(started(r) - d.t0 - d.start[i]) < 1) ?? near[0] ?? null);
            },
        );
    }

    function selected() {
        const i = d ? rowOf(d, app.state().sel) : -1;
        if (plot.selected() !== i) plot.select(i, false);
        t.select(i < 0 ? null : String(i), { reveal: true });
        details(i);
    }

    function controls() {
        const s = app.state();
        for (const [key, words] of [
            ['group', GROUPS],
            ['colour', COLOURS],
        ]) {
            const select = p.head.querySelector(`#timeline-${key}`);
            select.value = Object.hasOwn(words, s[key]) ? s[key] : 'image';
        }
        fold.hidden = s.group !== 'tree';
    }

    const groupOf = () => (Object.hasOwn(GROUPS, app.state().group) ? app.state().group : 'image');

    function draw(answer) {
        d = load(answer);
        answered_ms = Date.now();
        const names = polled(answer);
        plot.show({
            d,
            from: d.t0 + d.range[0],
            until: d.t0 + d.range[1],
            losses: stretches(answer),
            polled: names.length
                ? names.length < answer.hosts.length
                    ? `${names.slice(0, 3).join(', ')}: `
                    : ''
                : null,
            group: groupOf(),
            by: app.state().colour || 'image',
        });
        p.note(el('span', { title: summary(d) }, summary(d)));
        t.rows(Array.from({ length: d.n }, (_, i) => i));
        app.cover(answer);
        selected();
    }

    const nothing = (answer) =>
        answer.lifetimes.n
            ? null
            : {
                  text:
                      app.state().name || app.state().host
                          ? 'No process of this host and name lived in this range.'
                          : 'Nothing is known of this range.',
                  offers: [
                      ...app.offers(answer),
                      ...(app.state().name ? [{ text: 'Show all names', run: () => app.set({ name: null }) }] : []),
                      ...(app.state().host ? [{ text: 'Show all hosts', run: () => app.set({ host: null }) }] : []),
                  ],
              };

    async function update(changed) {
        controls();
        if (changed?.size && [...changed].every((key) => ['sel', 'sort', 'group', 'colour'].includes(key))) {
            if (changed.has('group') || changed.has('colour'))
                plot.regroup(groupOf(), app.state().colour || 'image');
            if (changed.has('sel')) selected();
            return;
        }
        if (changed?.has('tick') && d && Date.now() - answered_ms < (d.range[1] - d.range[0]) / TURNS) return;
        const series = app.filters({ group_by: 'image', metric: 'cpu_percent', limit: TOP, buckets: BUCKETS });
        const [answer] = await Promise.all([
            p.load((signal) => app.ask('lifetimes', app.filters({ max: MAX, buckets: STARTS }), signal), draw, {
                empty: nothing,
            }),
            app.ask('series', series).then((a) => plot.setSeries(seriesOf(a)), refused),
        ]);
        if (answer && !answer.lifetimes.n) app.cover(answer);
    }

    function fit() {
        const i = plot.selected();
        if (i < 0) return false;
        const [from, until] = [d.t0 + d.start[i], d.t0 + Math.min(d.end[i], d.range[1])];
        const margin = Math.max(1, (until - from) * 0.1);
        app.zoom(from - margin, until + margin);
        return true;
    }

    const onPlot = () => document.activeElement === plot.node || plot.selected() >= 0;
    const arrow = (text, dx, dy) => [text, () => (d?.n && onPlot() ? plot.step(dx, dy) : false), 'selection'];
    const stop = keys({
        ArrowLeft: arrow('bar before', -1, 0),
        ArrowRight: arrow('next bar', 1, 0),
        ArrowUp: ['group above', () => (d?.n ? plot.step(0, -1) : false), 'selection'],
        ArrowDown: ['group below', () => (d?.n ? plot.step(0, 1) : false), 'selection'],
        Enter: [
            'open the process',
            () => (d && plot.selected() >= 0 ? openProcess(plot.selected()) : false),
            'selection',
        ],
        '+': ['zoom in', () => (d ? plot.zoom(0.5) : false), 'time'],
        '-': ['zoom out', () => (d ? plot.zoom(2) : false), 'time'],
        g: ['group by', () => next('group', GROUPS), 'plot'],
        k: ['colour by', () => next('colour', COLOURS), 'plot'],
    });

    function next(key, words) {
        const all = Object.keys(words);
        app.set({ [key]: all[(all.indexOf(app.state()[key] || 'image') + 1) % all.length] });
    }

    return {
        update,
        fit,
        plot /* tests look where bars are */,
        close() {
            stop();
            p.close();
            side.close();
            t.close();
            plot.destroy();
        },
    };
}

export default { view: 'timeline', key: '5', title: 'Timeline', uses: ['host', 'name', 'range'], open };
