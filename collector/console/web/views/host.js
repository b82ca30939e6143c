/* Host: what one machine did in the range. CPU, memory, read and written by image, one question each on one axis;
 * starts and ends; what the agent told of itself. */
import { items as ofRules } from '../alarms.js';
import { areas, buckets } from '../areas.js';
import { el, put } from '../el.js';
import { bytes, count, NONE, percent, ppm } from '../format.js';
import { seriesOf } from '../hatch.js';
import { keys } from '../keys.js';
import { panel, told } from '../panel.js';
import { plot } from '../plot.js';
import { keyOf, rowsOf, secondsOf, titleOf } from '../rows.js';
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

/* Starts and ends of all processes, also of those that no answer could hold one by one. */
function density(d) {
    const series = { ...seriesOf(d), hosts_asked: 1 };
    const known = (values) => values.map((v, i) => (v === 0 && d.present[i] === 0 ? null : v));
    const groups = ['starts', 'ends'].map((key) => ({ key, label: key, name: key, values: known(d[key]) }));
    return { series, groups };
}

const few = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

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
    const move = (by, from, to) => {
        for (const a of plots) if (a !== by) a.window(from, to);
        if (by !== lifeDrawing) lifeDrawing?.window(from, to);
    };
    plots = PLOTS.map((one) => {
        const a = areas(root, app, {
            title: one.title,
            height: one.height,
            onSelect: select,
            onHover: (ms) => hover(a)(ms),
            onWindow: (from, to) => move(a, from, to),
        });
        return a;
    });
    const life = panel(root, { title: 'Starts and ends', height: '70px' });
    let lifeDrawing = null;
    let totals = '';
    const lifeNote = (text) => life.note(text || totals);
    const notes = el('ul.notes');
    const alarms = el('ul.notes', { 'aria-label': 'Rules that fire here, and those that are not known' });
    tabs.after(alarms);
    life.node.append(notes);
    const p = panel(root, { title: 'Processes', height: '12rem' });
    let seconds = 1;
    const arrived = el('span');

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
        const fact = (k, ...v) => el('span', null, el('span.k', null, k), v);
        if (!h) return;
        put(
            facts,
            h.connected
                ? el('b.good', null, '● connected')
                : h.ended
                  ? el('span.dim', null, '■ ended ', clock(nsMs(h.last_ns), 1000))
                  : el('b.warn', null, '○ silent since ', clock(nsMs(h.last_ns), 1000)),
            fact('source', h.source ?? NONE, h.polled ? ', polled' : ''),
            fact('CPUs', count(h.cpus)),
            fact('processes', count(h.processes)),
            arrived,
            fact('data since', full(nsMs(h.first_ns)).slice(0, 19)),
            fact('agent', h.version ?? NONE),
            h.class ? fact('class', h.class) : null,
            Object.entries(h.labels ?? {}).map(([key, value]) => fact(key, value)),
        );
    }

    function drawLife(answer) {
        if (!lifeDrawing) {
            lifeDrawing = plot(life.body, {
                height: 70,
                label: 'Starts and ends of processes',
                onZoom: app.zoom,
                onWindow: (from, to) => move(lifeDrawing, from, to),
                onBack: () => app.zoom('back'),
                onHover: (ms) => {
                    hover(null)(ms);
                    const at = lifeDrawing.at(ms);
                    const told = at?.values.map((v) => `${count(v.value)} ${v.label}`).join(', ');
                    lifeNote(at ? `${clock(at.ms, at.step)}  ${told}` : '');
                },
            });
        }
        const d = answer.lifetimes.density;
        const sum = (list) => list.reduce((a, b) => a + b, 0);
        const polled = answer.hosts[0]?.polled;
        totals = `${few(sum(d.starts), 'start')}, ${few(sum(d.ends), 'end')}`;
        if (polled) totals += '; shorter than a sample is not seen here';
        lifeDrawing.draw({ ...density(d), hosts: answer.hosts, metric: 'processes', stacked: false, polled });
        lifeNote('');
    }

    function drawNotes(answer) {
        put(
            notes,
            answer.events.map((e) =>
                el('li', null, el('span.dim', null, clock(e.time_ms, 1000) + ' '), `${e.kind}: ${e.text ?? ''}`),
            ),
        );
    }

    let turn = 0;

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => key === 'sel' || key === 'sort')) return selected();
        const mine = ++turn;
        const only = { host: name };
        put(
            tabs,
            link({ view: 'top', host: name }, 'Processes'),
            link({ view: 'top', host: name, mode: 'tree' }, 'Tree'),
            link({ view: 'timeline', host: name }, 'Timeline'),
            link({ view: 'events', host: name }, 'Events'),
            link({ view: 'losses', host: name }, 'Losses'),
            link({ view: 'rules', host: name }, 'Rules'),
        );
        const ask = (i, window, said) =>
            plots[i].load({
                said,
                metric: PLOTS[i].metric,
                rates: PLOTS[i].rates,
                params: { ...only, ...window },
                level: (answer) =>
                    i === 0 && answer.hosts[0]?.cpus
                        ? { value: answer.hosts[0].cpus * 100, text: `${answer.hosts[0].cpus} CPUs` }
                        : null,
            });
        /* The first answer says what range this is; the others are asked for the same one, so that all axes agree. */
        const first = await ask(0, {});
        if (mine !== turn) return; /* there is a newer one */
        const window = app.sameRange(first);
        const said = first?.partial ? told(first) : null;
        const params = (more) => app.params({ ...only, ...window, ...more });
        await Promise.all([
            ...[1, 2, 3].map((i) => ask(i, window, said)),
            life.load(
                (signal) => app.ask('lifetimes', params({ max: 1, buckets: buckets(life.body) }), signal),
                drawLife,
                { said },
            ),
            app.ask('hosts', only).then(tell, ignored),
            app.ask('rules', { host: name, limit: 50 }).then((a) => put(alarms, ofRules(app, a)), ignored),
            app.ask('events', params({ kinds: 'level,source', limit: 20 })).then(drawNotes, ignored),
            p.load(
                (signal) => app.ask('top', params({ metric: COLUMNS, group_by: 'image', limit: 500 }), signal),
                drawTable,
                { empty, said },
            ),
        ]);
        selected();
    }

    /* The panels beside it have said so already. */
    function ignored(e) {
        if (!e.code) throw e;
    }

    function drawTable(answer) {
        seconds = secondsOf(answer);
        t.rows(rowsOf(answer, 'image'));
        p.note(`${count(answer.rows.n)} images; Enter shows the processes of one`);
        app.cover(answer);
        const c = answer.coverage;
        if (c) put(arrived, el('span.k', null, 'coverage'), el(c.ppm < 1e6 ? 'b.warn' : 'span', null, ppm(c.ppm)));
    }

    function empty(answer) {
        if (answer.rows.n) return null;
        return answer.hosts.length
            ? {
                  text: `${name} has no processes in this range.`,
                  offers: app.offers(answer),
              }
            : {
                  text: `There is no host ${name}.`,
                  offers: [{ text: 'Show the fleet', run: () => app.go({ view: '', host: '' }) }],
              };
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
            turn++;
            for (const a of plots) a.close();
            life.close();
            lifeDrawing?.close();
            p.close();
            t.close();
        },
    };
}

const open = (root, app) => {
    const [name] = app.state().args;
    return name ? openHost(root, app, name) : choose(root, app);
};

/* The host that is looked at, for the link in the head: that of the view, or the only one of the filter. */
const args = (state) =>
    state.view === 'h' || state.view === 'p'
        ? state.args.slice(0, 1)
        : state.host && !/[*?]/.test(state.host)
          ? [state.host]
          : [];

export default { view: 'h', key: '2', title: 'Host', uses: ['range'], open, args };
