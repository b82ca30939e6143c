/* What groups of processes used over time: one question `series`, drawn as stacked areas, lines or heat, with the
 * readout of the pointer in its head.
 *
 *   const a = areas(parent, app, {title, height: 160, tools, onSelect: (key | null), onHover: (ms | null)})
 *   a.load({metric, group: 'image', limit: 12, rates, mode: 'area' | 'lines' | 'heat', params})
 *       asks and draws; resolves to the answer, or null. params: more of the question
 *       level: (answer) → {value, text} | null: a line across        none: (answer) → block: what to say of no values
 *   a.select(key | null)   a.hover(ms | null)   a.answer() → the last one   a.groups() → its groups   a.close()
 *   readout(at, metric, rates) → nodes that tell a bucket
 *   buckets(node) → how many of them fit on it */
import { el, put } from './el.js';
import { axis, count, ppm, rate, value } from './format.js';
import { heat } from './heat.js';
import { panel } from './panel.js';
import { plot, ready } from './plot.js';
import { groupsOf } from './rows.js';
import { clock } from './time.js';

const IN_READOUT = 6;

export const buckets = (node) => Math.max(60, Math.min(2000, Math.floor(node.clientWidth - 70)));

/* '14:03:12 412 %  postgres 210 %, cc1 98 %, …' and what did not arrive. */
export function readout(at, metric, rates) {
    if (!at) return null;
    const show = (v) => (rates ? rate(metric, v) : value(metric, v));
    const best = at.values.filter((v) => !v.rest && v.value > 0).sort((a, b) => b.value - a.value);
    const lost = [
        at.ppm < 1e6 ? `${ppm(at.ppm)} arrived` : '',
        at.hosts < at.asked ? `${count(at.hosts)} of ${count(at.asked)} hosts` : '',
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

export function areas(parent, app, { title = '', height = 160, tools = [], onSelect, onHover }) {
    const p = panel(parent, { title, tools, height: height + 'px' });
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
        const told = ms === null || !ask ? null : readout(drawing?.at(ms) ?? null, ask.metric, ask.rates);
        p.note(told || (answer ? most() : ''));
    }

    function make(next) {
        drawing?.close();
        put(p.body);
        kind = next;
        drawing = (kind === 'heat' ? heat : plot)(p.body, {
            label: `${title}; the table of this view has its figures`,
            height,
            onZoom: app.zoom,
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
        p.note(most());
    }

    const nothing = (a) =>
        a.series.groups.some((g) => g.columns[ask.metric]?.avg?.some((v) => v !== null))
            ? null
            : ask.none?.(a) || {
                  text: `No value of ${ask.metric.replace(/_/g, ' ')} in this range, of what is asked for.`,
              };

    return {
        panel: p,
        async load(next) {
            ask = { mode: 'area', limit: 12, group: 'image', ...next };
            await ready;
            const params = {
                metric: ask.metric,
                by: ask.by,
                group_by: ask.group,
                limit: ask.limit,
                buckets: buckets(p.body),
            };
            return p.load((signal) => app.ask('series', app.filters({ ...params, ...ask.params }), signal), draw, {
                empty: nothing,
            });
        },
        answer: () => answer,
        groups: () => groups,
        hover,
        select(key) {
            chosen = key;
            drawing?.select(key);
        },
        close() {
            p.close();
            drawing?.close();
        },
    };
}
