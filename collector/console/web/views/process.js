/* Process: everything about one instance. Its head, small plots of every metric that has values, its family, its
 * samples. */
import { buckets, readout } from '../areas.js';
import { ofName } from '../colour.js';
import { el, put } from '../el.js';
import { count, NONE, title as titleOfMetric, value } from '../format.js';
import { stretches } from '../hatch.js';
import { keys } from '../keys.js';
import { ancestors, kin, load, part } from '../lanes.js';
import { lanesPlot } from '../lanes_plot.js';
import { mark } from '../marks.js';
import { panel } from '../panel.js';
import { plot } from '../plot.js';
import { byOf, rowsOf } from '../rows.js';
import { save, table } from '../table.js';
import { full, nsMs, short } from '../time.js';
import { colour, openRow, tipOf } from './timeline.js';

const GROUPS = [
    ['CPU', ['cpu_percent', 'kernel_time', 'user_time', 'cpu_cycles', 'context_switches']],
    [
        'memory',
        [
            'working_set_size',
            'private_bytes',
            'virtual_bytes',
            'page_faults',
            'hard_faults',
            'paged_pool',
            'non_paged_pool',
        ],
    ],
    [
        'I/O',
        ['read_bytes', 'write_bytes', 'read_operations', 'write_operations', 'disk_read_bytes', 'disk_write_bytes'],
    ],
    [
        'threads',
        ['thread_count', 'active_threads', 'thread_states.running', 'thread_states.waiting', 'thread_states.disk_wait'],
    ],
    ['handles', ['handle_count', 'gdi_objects', 'user_objects']],
];
const ALL = GROUPS.flatMap(([, list]) => list);
const SAMPLES = ['cpu_percent', 'working_set_size', 'read_bytes', 'write_bytes', 'thread_count', 'handle_count'];
const MARGIN = 0.05;
const WHOLE = { pid: '', start: '', buckets: 240 }; /* of its host */

function none(root, app) {
    root.append(
        el(
            'div.block',
            null,
            el('p', null, 'Choose a process: Enter on a row of Processes, or a click on the Timeline.'),
            el('p', null, el('a', { href: app.link({ view: 'top', group: 'process' }) }, 'Processes')),
        ),
    );
    return { update: () => {}, close: () => {} };
}

function openProcess(root, app, [host, who]) {
    const [pid, start] = (who || '').split('.');
    let known = null; /* what is known of it */
    const id = { host, pid, start };
    const head = panel(root, { title: `${pid} on ${host}`, height: '4rem', kind: 'wide' });
    const small = panel(root, { title: 'Over time', height: '12rem' });
    const family = panel(root, { title: 'Family', height: '4rem' });
    const csv = el('button', { type: 'button', onclick: () => save(`${host}-${pid}.csv`, 'text/csv', t.csv()) }, 'CSV');
    const samples = panel(root, { title: 'Samples', tools: [csv], height: '8rem' });
    const events = panel(root, { title: 'Events', height: '3rem' });
    let drawings = [];
    let lanes = null;
    let kindred = null; /* what the lanes show */

    const t = table(samples.body, {
        label: 'Samples',
        key: (row) => row.i,
        height: '24rem',
        sort: '-time',
        columns: [
            { key: 'time', title: 'TIME', width: '26ch', cell: (row) => full(row.time_ms), sort: (row) => row.time_ms },
            ...SAMPLES.map((m) => ({
                key: m,
                title: titleOfMetric(m).toUpperCase(),
                right: true,
                cell: (row) => value(m, row.v[m]),
                sort: (row) => row.v[m] ?? null,
                plain: (row) => row.v[m] ?? '',
            })),
        ],
    });

    const fact = (k, ...v) => el('span', null, el('span.k', null, k), v);
    const exit = (info) =>
        info.exit_code === null || info.exit_code === undefined
            ? ', code not known'
            : el(info.exit_code ? 'b.bad' : 'span', null, info.exit_code ? ` ✕ code ${info.exit_code}` : ' code 0');

    function drawHead(answer) {
        const rows = rowsOf(answer, 'process');
        const row = rows[rows.length - 1];
        const info = row.info;
        known = info;
        const s = el('span.swatch', { 'aria-hidden': true });
        s.style.background = ofName(info.name).fill;
        head.title(`${info.name} ${info.pid}`);
        const life = info.end_ns ? short(nsMs(info.end_ns) - nsMs(info.start_ns)) : null;
        const pin = el(
            'button',
            {
                type: 'button',
                title: 'Compare with another (.)',
                onclick: () =>
                    app.say(`Marked ${mark({ ...app.state(), name: info.name }, app.now())}; d compares with it.`),
            },
            'pin for compare',
        );
        put(
            head.body,
            el(
                'div.facts',
                null,
                s,
                fact('started', info.start_ns ? full(info.start_ns) : 'not known'),
                info.end_ns
                    ? fact(
                          'ended',
                          (info.exit_inferred ? '≈ ' : '') + full(info.end_ns),
                          exit(info),
                          info.final_totals ? ' (exact totals)' : '',
                      )
                    : el('b.good', null, '● runs'),
                life ? fact('lived', life) : null,
                fact('parent', info.parent === null ? NONE : String(info.parent)),
                fact('user', info.user ?? NONE),
                fact('CPU from', info.cpu_time_origin ?? NONE),
                fact('host', el('a', { href: app.link({ view: 'h', args: [host] }) }, host)),
                pin,
            ),
            el(
                'p.command',
                null,
                el('span.k.dim', null, 'command '),
                info.command === null || info.command === undefined
                    ? el('span.dim', null, 'not sent: the host’s privacy policy does not let it pass')
                    : el('code', null, info.command),
                info.command_line_cut ? el('span.dim', null, ' (cut)') : '',
            ),
            info.path ? el('p.command', null, el('span.k.dim', null, 'image '), el('code', null, info.path)) : null,
        );
        app.cover(answer);
    }

    function drawSmall(answer) {
        for (const d of drawings) d.close();
        drawings = [];
        put(small.body);
        const g = answer.series.groups[0];
        const has = (m) => g?.columns[m]?.avg.some((v) => v !== null);
        const hover = (ms) => {
            for (const d of drawings) d.hover(ms);
        };
        for (const [name, list] of GROUPS) {
            const some = list.filter(has);
            if (!some.length) continue;
            const box = el('div.multiples');
            small.body.append(el('h3', null, name), box);
            for (const m of some) one(box, answer, m, g.columns[m], hover);
        }
        const missing = ALL.filter((m) => !has(m));
        if (missing.length)
            small.body.append(
                el('p.dim', null, `not measured here: ${missing.map((m) => m.replace(/_/g, ' ')).join(', ')}`),
            );
    }

    function one(box, answer, m, column, hover) {
        const rates = byOf(m).rates;
        const note = el('span.note');
        const holder = el('div.small', null, el('div.head', null, el('h4', null, titleOfMetric(m)), note));
        box.append(holder);
        const d = plot(holder, {
            height: 84,
            label: titleOfMetric(m),
            onZoom: app.zoom,
            onWindow: (from, to) => {
                for (const other of drawings) if (other !== d) other.window(from, to);
            },
            onBack: () => app.zoom('back'),
            onHover: (ms) => hover(ms),
        });
        const group = {
            key: m,
            label: '',
            name: known?.name ?? who,
            values: column.avg,
            low: column.min,
            high: column.max,
        };
        d.draw({ series: answer.series, hosts: answer.hosts, metric: m, groups: [group], stacked: false, rates });
        const plain = d.hover;
        d.hover = (ms) => {
            plain(ms);
            put(note, readout(d.at(ms), m, rates));
        };
        drawings.push(d);
    }

    /* Its parents and all that it started, as lanes and as links. */
    function drawFamily(answer) {
        const all = load(answer);
        const began = nsMs(known.start_ns) - all.t0;
        const near = (i) => all.pid[i] === known.pid && !(Math.abs(all.start[i] - began) > 1);
        const at = Array.from({ length: all.n }, (_, i) => i).find(near);
        if (at === undefined) {
            put(family.body, el('p.dim', null, 'Its start and end are not among those of its host in this range.'));
            lanes?.destroy();
            lanes = null;
            return;
        }
        const rows = kin(all, at);
        const d = load(part(answer, rows));
        const own = rows.indexOf(at);
        const chain = ancestors(d, own);
        const above = new Set(chain.map((a) => a.row));
        const below = Array.from({ length: d.n }, (_, i) => i).filter((i) => i !== own && !above.has(i));
        const title = (i) => `${d.names[d.name[i]]} ${d.pid[i]}`;
        const link = (i) => el('button.link', { type: 'button', onclick: () => openRow(app, d, i) }, title(i));
        const many = below.length ? `started, with their children, ${count(below.length)}: ` : 'started nothing';
        lanes ||= lanesPlot({
            picture: 'Parents and children over time; the same as links above',
            colour,
            onRange: app.zoom,
            onBack: () => app.zoom('back'),
            onSelect: (i) => i >= 0 && openRow(app, kindred, i),
            tip: (h) => (h.row >= 0 ? tipOf(kindred, h.row) : h.over ? `${h.over.length} more` : ''),
        });
        kindred = d;
        put(
            family.body,
            el(
                'p.family',
                null,
                chain.reverse().map((a) => [a.row === undefined ? String(a.pid) : link(a.row), ' ▸ ']),
                el('b', null, `${known.name} ${pid}`),
            ),
            el(
                'p.family',
                null,
                el('span.dim', null, many),
                below.slice(0, 60).map((i) => [link(i), ' ']),
                below.length > 60 ? el('span.dim', null, `and ${count(below.length - 60)} more`) : '',
            ),
            lanes.node,
        );
        const [from, until] = [d.t0 + d.range[0], d.t0 + d.range[1]];
        lanes.show({ d, from, until, losses: stretches(answer), polled: null, group: 'tree', by: 'image' });
        lanes.select(own, false);
        const { left_out: left } = answer.lifetimes;
        family.note(left ? `${count(left)} more of the host were left out` : '');
    }

    function drawEvents(answer) {
        events.note(`${count(answer.events.length)}${answer.more ? ', the first of the range' : ''}`);
        put(
            events.body,
            el(
                'ul.plain',
                null,
                answer.events.map((e) =>
                    el(
                        'li',
                        null,
                        el('span.dim', null, full(e.time_ns), ' '),
                        e.kind.replace('_', ' '),
                        e.exit_code === null || e.exit_code === undefined ? '' : ` code ${e.exit_code}`,
                        e.text ? ` ${e.text}` : '',
                        e.path && e.kind.startsWith('image') ? ` ${e.path}` : '',
                    ),
                ),
            ),
        );
    }

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => key === 'sel' || key === 'sort')) return;
        const params = app.params(id);
        const answer = await head.load(
            (signal) => app.ask('processes', { ...params, exited: true }, signal),
            drawHead,
            {
                empty: (a) =>
                    a.rows.n
                        ? null
                        : {
                              text: `Process ${pid} of ${host} is not in this range.`,
                              offers: [
                                  { text: 'A day', run: () => app.set({ t: '-24h', live: '' }) },
                                  ...(start && /^1\d{18}$/.test(start)
                                      ? [{ text: 'Around its start', run: () => around(start) }]
                                      : []),
                              ],
                          },
            },
        );
        const found = Boolean(answer?.rows?.n);
        if (answer) for (const x of [small, family, samples, events]) x.node.hidden = !found;
        if (!found) return;
        Object.assign(params, app.sameRange(answer));
        await Promise.all([
            small.load(
                (signal) =>
                    app.ask(
                        'series',
                        {
                            ...params,
                            metric: ALL,
                            group_by: 'process',
                            limit: 1,
                            envelope: true,
                            buckets: Math.min(600, (buckets(small.body) / 2) | 0),
                        },
                        signal,
                    ),
                drawSmall,
                {
                    empty: (a) =>
                        a.series.groups.length
                            ? null
                            : {
                                  text: 'No sample of it in this range: it lived between two, or they are gone.',
                              },
                },
            ),
            family.load((signal) => app.ask('lifetimes', { ...params, ...WHOLE, max: 20000 }, signal), drawFamily),
            events.load((signal) => app.ask('events', { ...params, kinds: 'all', limit: 100 }, signal), drawEvents, {
                empty: (a) => (a.events.length ? null : { text: 'Neither start nor end lies in this range.' }),
            }),
            samples.load(
                (signal) => app.ask('history', { ...params, metric: SAMPLES, limit: 4096 }, signal),
                (a) => {
                    t.rows(rowsOf(a, 'process'));
                    samples.note(`${count(a.rows.n)}${a.more ? ', the first of the range' : ''}`);
                },
                { empty: (a) => (a.rows.n ? null : { text: 'No samples of it in this range.' }) },
            ),
        ]);
    }

    function around(ns) {
        const ms = nsMs(ns);
        app.zoom(ms - 60e3, ms + 600e3);
    }

    function fit() {
        const info = known;
        if (!info?.start_ns) return false;
        const from = nsMs(info.start_ns);
        const to = info.end_ns ? nsMs(info.end_ns) : app.now();
        const margin = Math.max(1, (to - from) * MARGIN);
        return app.zoom(from - margin, to + margin);
    }

    const stop = keys({ e: ['events of it', () => app.go({ view: 'events', host, sel: pid }), 'views'] });
    return {
        update,
        fit,
        close() {
            stop();
            for (const x of [head, small, family, samples, events]) x.close();
            for (const d of drawings) d.close();
            lanes?.destroy();
            t.close();
        },
    };
}

const open = (root, app) =>
    app.state().args.length === 2 ? openProcess(root, app, app.state().args) : none(root, app);

const args = (state) => (state.view === 'p' ? state.args : []);

export default { view: 'p', key: '4', title: 'Process', uses: ['range'], open, args };
