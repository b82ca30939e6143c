/* What groups of processes used over time: one question `series`, drawn as stacked areas, lines or heat, with the
 * readout of the pointer in its head.
 *
 *   const a = areas(parent, app, {title, height: 160, tools, onSelect: (key | null), onHover: (ms | null),
 *                                onWindow: (from, to)})
 *   a.load({metric, group: 'image', limit: 12, rates, mode: 'area' | 'lines' | 'heat', params})
 *       asks and draws; resolves to the answer, or null. params: more of the question; said: as of panel
 *       level: (answer) → {value, text} | null: a line across        none: (answer) → block: what to say of no values
 *   a.select(key | null)   a.hover(ms | null)   a.window(from, to)   a.answer() → the last one   a.groups() → its
 *       groups   a.close()
 *   readout(at, metric, rates, hosts) → nodes that tell a bucket
 *   buckets(node) → how many of them fit on it */
import { el, put } from './el.js';
import { axis, count, NONE, ppm, rate, title as titleOf, value } from './format.js';
import { heat } from './heat.js';
import { panel } from './panel.js';
import { plot } from './plot.js';
import { groupsOf } from './rows.js';
import { get, range } from './store.js';
import { table } from './table.js';
import { clock, full, nsMs, short } from './time.js';

const IN_READOUT = 6;
const SUMS_FROM_MS = 1800e3;
const SUMS_STEP_MS = 10e3;

/* As many as pixels; of half an hour and more in steps of 10 s at least, which the collector keeps added up. */
export function buckets(node) {
    const { from, to } = range(get(), 0);
    const kept = to - from >= SUMS_FROM_MS ? Math.ceil((to - from) / SUMS_STEP_MS) : Infinity;
    return Math.max(60, Math.min(2000, Math.floor(node.clientWidth - 70), kept));
}

/* '14:03:12 412 %  postgres 210 %, cc1 98 %, …' and what did not arrive. */
export function readout(at, metric, rates, hosts = []) {
    if (!at) return null;
    const show = (v) => (rates ? rate(metric, v) : value(metric, v));
    const best = at.values.filter((v) => !v.rest && v.value > 0).sort((a, b) => b.value - a.value);
    const off = hosts.length > 1 ? Math.max(...hosts.map((h) => Math.abs(nsMs(h.offset_ns)) || 0)) : 0;
    const lost = [
        at.ppm < 1e6 ? `${ppm(at.ppm)} arrived` : '',
        at.hosts < at.asked ? `${count(at.hosts)} of ${count(at.asked)} hosts` : '',
        at.since !== null ? `all since ${clock(at.since, at.step)}, not measured before` : '',
        off >= 1000 ? `clocks differ by ±${short(off)}` : '',
    ];
    return [
        el('b', null, `${clock(at.ms, at.step)}  ${at.total === null ? 'nothing' : show(at.total)}`),
        el(
            'span.warn',
            null,
            lost.filter(Boolean).map((s) => '  ' + s),
        ),
        '  ' +
            best
                .slice(0, IN_READOUT)
                .map((v) => `${v.label} ${show(v.value)}`)
                .join(', ') +
            (best.length > IN_READOUT ? ', …' : ''),
    ];
}

/* The same figures as a table, a row for each bucket: built when it is asked for. */
function figures(parent, title, onBucket) {
    const box = el('div', { hidden: true });
    const button = el(
        'button',
        { type: 'button', 'aria-expanded': 'false', title: 'The figures of the plot, as a table' },
        'figures',
    );
    let data = null;
    let t = null;

    function fill() {
        if (box.hidden || !data) return;
        const { series, groups, metric, rates } = data;
        const step = Number(series.step_ns) / 1e6;
        const k = rates ? 1000 / step : 1;
        const show = (v) => (v === null || v === undefined ? NONE : rates ? rate(metric, v * k) : value(metric, v));
        const sum = (i) => groups.reduce((s, g) => ((g.values[i] ?? null) === null ? s : (s ?? 0) + g.values[i]), null);
        const at = (i) => series.t0_ms + i * step;
        const columns = [
            {
                key: 'time',
                title: 'TIME',
                width: '24ch',
                cell: (i) => full(at(i)).slice(0, step < 1000 ? 23 : 19),
                sort: (i) => i,
            },
            {
                key: 'arrived',
                title: 'ARRIVED',
                width: '10ch',
                right: true,
                cell: (i) => ppm(series.present[i]),
                sort: (i) => series.present[i],
            },
            {
                key: 'hosts',
                title: 'HOSTS',
                width: '9ch',
                right: true,
                cell: (i) => count(series.hosts_in?.[i]),
                sort: (i) => series.hosts_in?.[i],
            },
            { key: 'all', title: 'ALL', width: '12ch', right: true, cell: (i) => show(sum(i)), sort: sum },
            ...groups.map((g, n) => ({
                key: 'g' + n,
                title: g.label,
                exact: true,
                width: '14ch',
                right: true,
                cell: (i) => show(g.values[i]),
                sort: (i) => g.values[i] ?? null,
            })),
        ];
        if (!t)
            t = table(box, {
                label: `Figures of ${title}`,
                columns,
                key: (i) => i,
                height: '16rem',
                onSelect: (i) => onBucket(at(i) + step / 2),
            });
        t.columns(columns);
        t.rows(Array.from({ length: series.n }, (_, i) => i));
    }

    button.addEventListener('click', () => {
        box.hidden = !box.hidden;
        button.setAttribute('aria-expanded', String(!box.hidden));
        fill();
    });
    return {
        button,
        place: () => parent().append(box),
        draw(next) {
            data = next;
            fill();
        },
        close: () => t?.close(),
    };
}

export function areas(parent, app, { title = '', height = 160, tools = [], onSelect, onHover, onWindow }) {
    const numbers = figures(
        () => p.node,
        title,
        (ms) => hover(ms),
    );
    const p = panel(parent, { title, tools: [...tools, numbers.button], height: height + 'px' });
    numbers.place();
    let drawing = null;
    let kind = '';
    let ask = null;
    let answer = null;
    let groups = [];
    let chosen = null;

    function most() {
        let best = 0;
        for (let i = 0; i < answer.series.n; i++) {
            const sum = groups.reduce((s, g) => s + (g.values[i] ?? 0), 0);
            best = Math.max(best, sum);
        }
        const k = ask.rates ? 1e9 / Number(answer.series.step_ns) : 1;
        return best > 0 ? `at most ${axis(ask.metric, best * k, ask.rates)}` : '';
    }

    function hover(ms) {
        drawing?.hover(ms);
        const told =
            ms === null || !ask ? null : readout(drawing?.at(ms) ?? null, ask.metric, ask.rates, answer?.hosts);
        p.note(told || (answer ? most() : ''));
    }

    function make(next) {
        drawing?.close();
        put(p.body);
        kind = next;
        drawing = (kind === 'heat' ? heat : plot)(p.body, {
            label: `${title}; its figures are in the table that the button figures shows`,
            height,
            onZoom: app.zoom,
            onWindow,
            onBack: () => app.zoom('back'),
            onHover: (ms) => {
                hover(ms);
                onHover?.(ms);
            },
            onSelect,
        });
    }

    function draw(next) {
        answer = next;
        const wanted = ask.mode === 'heat' ? 'heat' : 'plot';
        if (kind !== wanted) make(wanted);
        const { series, hosts } = answer;
        groups = groupsOf(answer, ask.metric, ask.group).filter((g) => g.values.some((v) => v !== null));
        for (const g of groups) g.low = g.high = null;
        const shown = ask.mode === 'area' ? groups : groups.filter((g) => g.key !== null);
        const more = { metric: ask.metric, rates: ask.rates, stacked: ask.mode === 'area', level: ask.level?.(answer) };
        drawing.draw({ series, hosts, groups: shown, ...more });
        drawing.select(chosen);
        numbers.draw({ series, groups, ...more });
        p.note(most());
    }

    const nothing = (a) =>
        a.series.groups.some((g) => g.columns[ask.metric]?.avg?.some((v) => v !== null))
            ? null
            : ask.none?.(a) || {
                  text: `No figures of ${titleOf(ask.metric)} in this range for what is asked.`,
                  offers: app.offers(a),
              };

    return {
        panel: p,
        async load(next) {
            ask = { mode: 'area', limit: 12, group: 'image', ...next };
            const params = {
                metric: ask.metric,
                group_by: ask.group,
                limit: ask.limit,
                buckets: buckets(p.body),
            };
            return p.load((signal) => app.ask('series', app.filters({ ...params, ...ask.params }), signal), draw, {
                empty: nothing,
                said: ask.said,
            });
        },
        answer: () => answer,
        groups: () => groups,
        hover,
        window: (from, to) => drawing?.window?.(from, to),
        select(key) {
            chosen = key;
            drawing?.select(key);
        },
        close() {
            p.close();
            numbers.close();
            drawing?.close();
        },
    };
}
