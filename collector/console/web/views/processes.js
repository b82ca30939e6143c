/* Processes: who used most, over time. The plot is `series`, the table is `top` with the same filter, exact for the
 * range. */
import { areas } from '../areas.js';
import { ofName } from '../colour.js';
import { el, put } from '../el.js';
import { bytes, count, NONE, percent, rate, title as titleOfMetric, unitOf, value } from '../format.js';
import { icicle } from '../icicle.js';
import { keys } from '../keys.js';
import { panel } from '../panel.js';
import { BY, byOf, keyOf, processPath, rowsOf, secondsOf, titleOf } from '../rows.js';
import { strip } from '../heat.js';
import { save, table } from '../table.js';
import { nsMs } from '../time.js';

const GROUPS = ['image', 'process', 'user', 'host'];
const MODES = ['area', 'lines', 'heat', 'tree'];
const LIMIT = 500;
const COLUMNS = ['cpu_percent', 'cpu_time', 'working_set_size', 'read_bytes', 'write_bytes', 'thread_count'];

function choice(label, words, run) {
    const buttons = words.map(([word, text]) =>
        el('button', { type: 'button', onclick: () => run(word), dataset: { word } }, text),
    );
    const node = el('span.choice', { role: 'group', 'aria-label': label }, buttons);
    return {
        node,
        set: (word) => buttons.forEach((b) => b.setAttribute('aria-pressed', String(b.dataset.word === word))),
    };
}

function open(root, app) {
    const by = choice(
        'Ordered by',
        Object.entries(BY).map(([word, b]) => [word, b.title]),
        (word) => app.set({ by: word, sort: null }),
    );
    const group = el(
        'select',
        { 'aria-label': 'Group by', onchange: () => app.set({ group: group.value, sel: null, sort: null }) },
        GROUPS.map((g) => el('option', { value: g }, 'by ' + g)),
    );
    const mode = choice(
        'Drawn as',
        MODES.map((m) => [m, m]),
        (word) => app.set({ mode: word }),
    );
    const a = areas(root, app, {
        title: 'Processes',
        height: 230,
        tools: [by.node, group, mode.node],
        onSelect: (key) => app.set({ sel: key }, { replace: true }),
    });
    const treePanel = panel(root, { title: 'Tree', height: '10rem', tools: [] });
    const tree = icicle(treePanel.body, { onSelect: (row) => app.set({ sel: keyOf(row) }, { replace: true }) });
    const csv = el(
        'button',
        { type: 'button', title: 'All rows as a file', onclick: () => save('top.csv', 'text/csv', t.csv()) },
        'CSV',
    );
    const p = panel(root, { title: 'Table', tools: [csv], height: '14rem' });
    let seconds = 1;
    let sparks = new Map();
    let present = null;

    const metric = (name, extra) => {
        const rates = byOf(name).rates && unitOf(name) !== 'ns';
        return {
            key: name,
            title: titleOfMetric(name),
            right: true,
            width: '11ch',
            sort: (row) => row.v[name] ?? null,
            cell: (row) =>
                rates && row.v[name] !== null && row.v[name] !== undefined
                    ? rate(name, row.v[name] / seconds)
                    : value(name, row.v[name]),
            plain: (row) => row.v[name] ?? '',
            ...extra,
        };
    };

    function swatch(row, name) {
        const s = el('span.swatch', { 'aria-hidden': true });
        if (sparks.has(keyOf(row))) s.style.background = ofName(name).fill;
        else s.style.boxShadow = 'inset 0 0 0 1px ' + ofName(name).fill;
        return s;
    }

    function name(row) {
        const process = row.group === 'process';
        return el(
            'span',
            null,
            swatch(row, process ? row.name : keyOf(row)),
            process ? el('a', { href: app.link({ view: 'p', args: processPath(row) }) }, titleOf(row)) : titleOf(row),
            row.info?.end_ns && process
                ? el('span.dim', null, row.info.exit_code ? ` ✕ ${row.info.exit_code}` : ' ended')
                : '',
        );
    }

    function columns(g) {
        const process = g === 'process';
        const spark = {
            key: 'time',
            title: 'over the range',
            width: '176px',
            hint: 'drawn for the rows that are in the plot',
            cell: (row) => {
                const values = sparks.get(keyOf(row));
                return values
                    ? strip(values, {
                          present,
                          max: Math.max(...values.map((v) => v ?? 0)),
                          width: 160,
                          height: 14,
                          label: 'over the range',
                      })
                    : el('span.dim', null, NONE);
            },
        };
        return [
            {
                key: 'name',
                title: process ? 'PROCESS' : g.toUpperCase(),
                wide: true,
                cell: name,
                sort: titleOf,
                plain: titleOf,
            },
            process
                ? {
                      key: 'host',
                      title: 'HOST',
                      width: '16ch',
                      cut: true,
                      cell: (row) => row.host?.name ?? NONE,
                      sort: (row) => row.host?.name,
                  }
                : {
                      key: 'processes',
                      title: 'PROC',
                      width: '8ch',
                      right: true,
                      cell: (row) => count(row.instances),
                      sort: (row) => row.instances,
                  },
            process
                ? {
                      key: 'user',
                      title: 'USER',
                      width: '13ch',
                      cut: true,
                      cell: (row) => row.info?.user ?? NONE,
                      sort: (row) => row.info?.user,
                  }
                : {
                      key: 'hosts',
                      title: 'HOSTS',
                      width: '8ch',
                      right: true,
                      cell: (row) => count(row.hosts),
                      sort: (row) => row.hosts,
                  },
            spark,
            ...COLUMNS.map((m) => metric(m)),
        ];
    }

    const select = (key) => app.set({ sel: key === app.state().sel ? null : key }, { replace: true });
    const t = table(p.body, {
        label: 'Processes',
        columns: columns(app.state().group),
        key: keyOf,
        height: 'calc(100vh - 27rem)',
        sort: app.state().sort,
        onSort: (sort) => app.set({ sort }, { replace: true }),
        onSelect: (row, key) => {
            app.set({ sel: key }, { replace: true });
            app.say(`${titleOf(row)}, CPU ${percent(row.v.cpu_percent)}, memory ${bytes(row.v.working_set_size)}`);
        },
        onOpen: into,
    });

    /* One step closer: a group's processes, a host, a process. */
    function into(row) {
        const { group: g } = app.state();
        if (g === 'process') app.go({ view: 'p', args: processPath(row) });
        else if (g === 'host') app.go({ view: 'h', args: [row.label] });
        else if (g === 'image') app.set({ name: row.label, group: 'process', sel: null });
    }

    function selected(state) {
        const key = state.sel || null;
        a.select(key);
        t.select(key, { reveal: true });
        tree.select(key);
    }

    function drawTable(answer) {
        const state = app.state();
        seconds = secondsOf(answer);
        t.columns(columns(state.group));
        t.rows(rowsOf(answer, state.group));
        t.select(state.sel || null);
        const n = answer.rows.n;
        p.note(`${count(n)}${answer.more || n >= LIMIT ? ', the first' : ''} by ${byOf(state.by).title}; Enter opens`);
        app.cover(answer);
    }

    function sparkle(answer) {
        if (!answer) return;
        present = answer.series.present;
        sparks = new Map(
            a
                .groups()
                .filter((g) => g.key !== null)
                .map((g) => [g.key, g.values]),
        );
        t.redraw();
    }

    const empty = (answer) => {
        if (answer.rows.n) return null;
        const state = app.state();
        const offers = [];
        if (state.name) offers.push({ text: 'All names', run: () => app.set({ name: null }) });
        if (state.host) offers.push({ text: 'All hosts', run: () => app.set({ host: null }) });
        offers.push(...app.offers(answer));
        const of = [state.name && `named ${state.name}`, state.host && `on ${state.host}`].filter(Boolean).join(' ');
        return { text: `No process ${of} in this range.`.replace('  ', ' '), offers };
    };

    async function update(changed) {
        const state = app.state();
        if (changed?.size && [...changed].every((key) => key === 'sel' || key === 'sort')) {
            selected(state);
            return;
        }
        const what = byOf(state.by);
        by.set(state.by);
        mode.set(state.mode);
        group.value = state.group;
        const asTree = state.mode === 'tree';
        a.panel.body.parentNode.hidden = asTree;
        a.panel.title(`Processes by ${what.title}`);
        treePanel.node.hidden = !asTree;
        const ask = { group_by: state.group, limit: LIMIT, metric: [...new Set([what.by, ...COLUMNS])] };
        const jobs = [p.load((signal) => app.ask('top', app.filters(ask), signal), drawTable, { empty })];
        if (asTree) {
            jobs.push(
                treePanel.load(
                    (signal) =>
                        app.ask(
                            'top',
                            app.filters({ exited: true, metric: 'cpu_time', group_by: 'tree', limit: 4096 }),
                            signal,
                        ),
                    (answer) => tree.draw(rowsOf(answer, 'process')),
                    { empty: (answer) => (answer.rows.n ? null : { text: 'No process in this range.' }) },
                ),
            );
        } else {
            jobs.push(
                a.load({ metric: what.draw, group: state.group, rates: what.rates, mode: state.mode }).then(sparkle),
            );
        }
        await Promise.all(jobs);
        selected(app.state());
    }

    const words = Object.keys(BY);
    const next = (by_) => words[(words.indexOf(app.state().by) + by_ + words.length) % words.length];
    const stop = keys({
        ...Object.fromEntries(
            Object.entries(BY).map(([word, b]) => [
                b.key,
                ['by ' + b.title, () => app.set({ by: word, sort: null }), 'order'],
            ]),
        ),
        '<': ['order before', () => app.set({ by: next(-1) }), 'order'],
        '>': ['order after', () => app.set({ by: next(1) }), 'order'],
        g: [
            'next group',
            () => app.set({ group: GROUPS[(GROUPS.indexOf(app.state().group) + 1) % GROUPS.length], sel: null }),
            'order',
        ],
        v: [
            'area, lines, heat, tree',
            () => app.set({ mode: MODES[(MODES.indexOf(app.state().mode) + 1) % MODES.length] }),
            'order',
        ],
        e: ['events', () => app.go({ view: 'events' }), 'views'],
        Enter: [
            'one step closer',
            () => {
                const row = t.shown().find((r) => keyOf(r) === t.selected());
                return row ? into(row) : false;
            },
            'selection',
        ],
        ArrowDown: [
            'next row',
            () => {
                t.grid.focus();
                t.choose(0);
            },
            'selection',
        ],
    });
    /* The life of the process that is selected. */
    function fit() {
        const info = t.shown().find((r) => keyOf(r) === t.selected())?.info;
        if (app.state().group !== 'process' || !info?.start_ns) return false;
        const [from, to] = [nsMs(info.start_ns), info.end_ns ? nsMs(info.end_ns) : app.now()];
        const margin = Math.max(1, (to - from) / 20);
        return app.zoom(from - margin, to + margin);
    }

    return {
        update,
        fit,
        step: () => Number(a.answer()?.series.step_ns ?? 0) / 1e6,
        close() {
            stop();
            a.close();
            treePanel.close();
            p.close();
            t.close();
        },
    };
}

export default { view: 'top', key: '3', title: 'Processes', uses: ['host', 'name', 'range'], open };
