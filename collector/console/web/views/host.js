/* Host: what one machine did in the range. CPU, memory, read and written by image, one question each on one axis;
 * starts and ends; what the agent told of itself. */
import { areas } from '../areas.js';
import { el, put } from '../el.js';
import { bytes, count, NONE, percent, ppm } from '../format.js';
import { keys } from '../keys.js';
import { panel } from '../panel.js';
import { plot, ready } from '../plot.js';
import { keyOf, rowsOf, titleOf } from '../rows.js';
import { table } from '../table.js';
import { clock, full, nsMs, short } from '../time.js';
import { ofName } from '../colour.js';

const PLOTS = [
    { title: 'CPU', metric: 'cpu_percent', height: 150 },
    { title: 'Memory', metric: 'working_set_size', height: 110 },
    { title: 'Read', metric: 'read_bytes', height: 90, rates: true },
    { title: 'Written', metric: 'write_bytes', height: 90, rates: true },
];
const COLUMNS = ['cpu_time', 'cpu_percent', 'working_set_size', 'read_bytes', 'write_bytes', 'thread_count'];
const EVENTS_MAX = 4096;

function choose(root, app) {
    const p = panel(root, { title: 'Host' });
    return {
        update: () =>
            p.load(
                (signal) => app.askAll('hosts', { host: app.state().host }, signal),
                (answer) => {
                    put(
                        p.body,
                        el('p.dim', null, 'Choose a host: '),
                        el(
                            'p.presets',
                            null,
                            answer.hosts
                                .slice(0, 200)
                                .map((h) => el('a.chip', { href: app.link({ view: 'h', args: [h.name] }) }, h.name)),
                        ),
                    );
                },
                {
                    empty: (answer) =>
                        answer.hosts.length
                            ? null
                            : {
                                  text: 'There is no such host.',
                                  offers: [
                                      {
                                          text: 'Show the fleet',
                                          run: () => app.go({ view: '', host: '' }),
                                      },
                                  ],
                              },
                },
            ),
        close: () => p.close(),
    };
}

/* Starts and ends in as many buckets as the plots have. */
function density(events, series) {
    const step = Number(series.step_ns) / 1e6;
    const of = (kind) => {
        const values = series.present.map((ppm_) => (ppm_ === 0 ? null : 0));
        for (const e of events) {
            const i = Math.floor((e.time_ms - series.t0_ms) / step);
            if (e.kind === kind && i >= 0 && i < values.length) values[i] = (values[i] ?? 0) + 1;
        }
        return values;
    };
    return [
        { key: 'starts', label: 'starts', name: 'starts', values: of('process_start') },
        { key: 'ends', label: 'ends', name: 'ends', values: of('process_stop') },
    ];
}

function openHost(root, app, name) {
    const link = (view, title) => el('a', { href: app.link(view) }, title);
    const facts = el('div.facts');
    const tabs = el('nav.tabs', { 'aria-label': `More of ${name}` });
    root.append(el('div.head', null, el('h2.big', null, name), facts), tabs);
    const select = (key) => app.set({ sel: key }, { replace: true });
    let plots = [];
    const hover = (from) => (ms) => {
        for (const a of plots) if (a !== from) a.hover(ms);
        lifeDrawing?.hover(ms);
    };
    plots = PLOTS.map((one) => {
        const a = areas(root, app, {
            title: one.title,
            height: one.height,
            onSelect: select,
            onHover: (ms) => hover(a)(ms),
        });
        return a;
    });
    const life = panel(root, { title: 'Starts and ends', height: '70px' });
    let lifeDrawing = null;
    const notes = el('ul.notes');
    life.node.append(notes);
    const p = panel(root, { title: 'Processes', height: '12rem' });
    let seconds = 1;

    const metric = (key, title, show) => ({
        key,
        title,
        right: true,
        width: '12ch',
        sort: (row) => row.v[key] ?? null,
        cell: (row) => show(row.v[key] ?? null),
    });
    const perSecond = (v) => (v === null ? NONE : bytes(v / seconds) + '/s');
    const t = table(p.body, {
        label: `Processes of ${name} by image`,
        key: keyOf,
        sort: '-cpu_time',
        height: '24rem',
        columns: [
            {
                key: 'image',
                title: 'IMAGE',
                wide: true,
                sort: titleOf,
                plain: titleOf,
                cell: (row) => {
                    const s = el('span.swatch', { 'aria-hidden': true });
                    s.style.background = ofName(keyOf(row)).fill;
                    return el('span', null, s, titleOf(row));
                },
            },
            {
                key: 'processes',
                title: 'PROC',
                right: true,
                width: '8ch',
                cell: (row) => count(row.instances),
                sort: (row) => row.instances,
            },
            metric('cpu_percent', 'CPU', percent),
            metric('cpu_time', 'CPU TIME', (v) => (v === null ? NONE : short(v / 1e6))),
            metric('working_set_size', 'MEMORY', bytes),
            metric('read_bytes', 'READ', perSecond),
            metric('write_bytes', 'WRITTEN', perSecond),
            metric('thread_count', 'THREADS', count),
        ],
        onSelect: (row, key) => select(key),
        onOpen: (row) => app.go({ view: 'top', host: name, name: row.label, group: 'process' }),
    });

    function tell(answer) {
        const h = answer.hosts[0];
        const c = answer.coverage;
        const fact = (k, ...v) => el('span', null, el('span.k', null, k), v);
        if (!h) return;
        put(
            facts,
            h.connected
                ? el('b.good', null, '● connected')
                : h.ended
                  ? el('span.dim', null, '■ ended ', clock(nsMs(h.last_ns), 1000))
                  : el('b.warn', null, '○ silent since ', clock(nsMs(h.last_ns), 1000)),
            fact('source', h.source ?? NONE, h.polled ? ' (polled: what is shorter than a sample is not seen)' : ''),
            fact('CPUs', count(h.cpus)),
            fact('processes', count(h.processes)),
            c ? fact('coverage', el(c.ppm < 1e6 ? 'b.warn' : 'span', null, ppm(c.ppm))) : null,
            fact('data since', full(nsMs(h.first_ns)).slice(0, 19)),
            fact('agent', h.version ?? NONE),
        );
    }

    function drawLife(answer, series) {
        const events = answer.events;
        if (!lifeDrawing) {
            lifeDrawing = plot(life.body, {
                height: 70,
                label: 'Starts and ends of processes',
                onZoom: app.zoom,
                onBack: () => app.zoom('back'),
                onHover: (ms) => hover(null)(ms),
            });
        }
        lifeDrawing.draw({
            series,
            hosts: answer.hosts,
            metric: 'processes',
            groups: density(events, series),
            stacked: false,
            polled: answer.hosts[0]?.polled,
        });
        const starts = events.filter((e) => e.kind === 'process_start').length;
        const own = events.filter((e) => e.kind === 'level' || e.kind === 'source');
        life.note(
            `${count(starts)} starts, ${count(events.length - own.length - starts)} ends`,
            answer.hosts[0]?.polled ? el('span.dim', null, ' (shorter than a sample is not seen here)') : '',
            answer.more ? el('b.warn', null, `, the first ${count(EVENTS_MAX)} of the range only`) : '',
        );
        put(
            notes,
            own
                .slice(0, 20)
                .map((e) =>
                    el('li', null, el('span.dim', null, clock(e.time_ms, 1000) + ' '), `${e.kind}: ${e.text ?? ''}`),
                ),
        );
    }

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => key === 'sel' || key === 'sort')) return selected();
        const only = { host: name };
        put(
            tabs,
            link({ view: 'top', host: name }, 'Processes'),
            link({ view: 'top', host: name, mode: 'tree' }, 'Tree'),
            link({ view: 'timeline', host: name }, 'Timeline'),
            link({ view: 'events', host: name }, 'Events'),
            link({ view: 'losses', host: name }, 'Losses'),
        );
        await ready;
        const jobs = plots.map((a, i) => {
            const one = PLOTS[i];
            return a.load({
                metric: one.metric,
                rates: one.rates,
                params: only,
                level: (answer) =>
                    i === 0 && answer.hosts[0]?.cpus
                        ? { value: answer.hosts[0].cpus * 100, text: `${answer.hosts[0].cpus} CPUs` }
                        : null,
            });
        });
        jobs.push(
            p.load(
                (signal) =>
                    app.ask('top', app.params({ ...only, metric: COLUMNS, group_by: 'image', limit: 500 }), signal),
                (answer) => {
                    seconds = Math.max(1e-3, (nsMs(answer.until_ns) - nsMs(answer.since_ns)) / 1000);
                    t.rows(rowsOf(answer, 'image'));
                    p.note(`${count(answer.rows.n)} images; Enter shows the processes of one`);
                    tell(answer);
                    app.cover(answer);
                },
                {
                    empty: (answer) =>
                        answer.rows.n
                            ? null
                            : answer.hosts.length
                              ? {
                                    text: `${name} has no processes in this range.`,
                                    offers: [
                                        { text: 'Its newest 15 minutes', run: () => app.set({ t: '-15m', live: '' }) },
                                    ],
                                }
                              : {
                                    text: `There is no host ${name}.`,
                                    offers: [{ text: 'Show the fleet', run: () => app.go({ view: '', host: '' }) }],
                                },
                },
            ),
        );
        const [first] = await Promise.all(jobs);
        if (first) {
            await life.load(
                (signal) =>
                    app.ask(
                        'events',
                        app.params({ ...only, kinds: 'process,level,source', limit: EVENTS_MAX }),
                        signal,
                    ),
                (answer) => drawLife(answer, first.series),
            );
        }
        selected();
    }

    function selected() {
        const key = app.state().sel || null;
        for (const a of plots) a.select(key);
        t.select(key, { reveal: true });
    }

    const stop = keys({
        e: ['events', () => app.go({ view: 'events', host: name }), 'views'],
        ArrowDown: [
            'next row',
            () => {
                t.grid.focus();
                t.choose(0);
            },
            'selection',
        ],
    });
    return {
        update,
        step: () => Number(plots[0].answer()?.series.step_ns ?? 0) / 1e6,
        close() {
            stop();
            for (const a of plots) a.close();
            life.close();
            lifeDrawing?.close();
            p.close();
            t.close();
        },
    };
}

function open(root, app) {
    let shown = null;
    let inner = null;
    return {
        update(changed) {
            const [name] = app.state().args;
            if (!inner || name !== shown) {
                inner?.close();
                put(root);
                shown = name;
                inner = name ? openHost(root, app, name) : choose(root, app);
                return inner.update(null);
            }
            return inner.update(changed);
        },
        step: () => inner?.step?.() ?? 0,
        close: () => inner?.close(),
    };
}

/* The host that is looked at, for the link in the head: that of the view, or the only one of the filter. */
const args = (state) =>
    state.view === 'h' || state.view === 'p'
        ? state.args.slice(0, 1)
        : state.host && !/[*?]/.test(state.host)
          ? [state.host]
          : [];

export default { view: 'h', key: '2', title: 'Host', uses: ['range'], open, args };
