/* Compare: two marks on one axis from their beginnings, and what each image used in both. */
import { band } from '../band.js';
import { ofName } from '../colour.js';
import { el, put } from '../el.js';
import { count, NONE, ppm, rate, value } from '../format.js';
import { drawLoss, drawNothing, drawSince, lossRuns, nothings } from '../hatch.js';
import { marks, read, remove } from '../marks.js';
import { panel } from '../panel.js';
import { byOf, reachesOf, rowsOf } from '../rows.js';
import { table } from '../table.js';
import { clock, rfc3339, short } from '../time.js';

const BUCKETS = 300;
const LIMIT = 1000;
const HEIGHT = 170;
const ENOUGH_PPM = 990000;
const GROUPS = { image: 'image', 'image-user': 'image and user', user: 'user', host: 'host' };
const METRICS = { cpu: 'CPU', memory: 'memory', read: 'read', write: 'written' };
const SIDES = ['a', 'b'];

/* Both lines from their beginnings: A as it is, B dashed; what did not arrive of A is hatched above, of B below. */
function lines(g, at, { sides, most }) {
    const room = at.bottom - at.top - 4;
    sides.forEach(({ series, hosts, values, nones, known, reaches }, k) => {
        const step = Number(series.step_ns) / 1e6;
        const begin = series.t0_ms - series.from;
        const y = (v) => at.bottom - (Math.min(v, most) / (most || 1)) * room;
        g.strokeStyle = k ? at.t.select : at.t.ink;
        g.lineWidth = 1.6;
        g.setLineDash(k ? [6, 4] : []);
        g.beginPath();
        values.forEach((v, i) => {
            if (v === null) return;
            const [x0, x1] = [at.x(begin + i * step), at.x(begin + (i + 1) * step)];
            if (i === 0 || values[i - 1] === null) g.moveTo(x0, y(v));
            else g.lineTo(x0, y(v));
            g.lineTo(x1, y(v));
        });
        g.stroke();
        g.setLineDash([]);
        const top = k ? at.top + room / 2 : at.top;
        reaches?.forEach((back, i) => {
            const x0 = at.x(begin + i * step);
            if (back) drawSince(g, x0, top, Math.max(2, at.x(begin + (i + 1) * step) - x0), room / 2);
        });
        const [first, last] = [at.x(known.from - series.from), at.x(known.to - series.from)];
        for (const r of lossRuns(series, hosts)) {
            const x0 = Math.max(first, at.x(r.from - series.from));
            const x1 = Math.min(last, at.x(r.to - series.from));
            if (x1 > x0) drawLoss(g, x0, top, x1 - x0, room / 2, r.ppm, r.atMost);
        }
        for (const n of nones) {
            const x0 = Math.max(0, at.x(n.from - series.from));
            drawNothing(g, x0, top, at.x(n.until - series.from) - x0, room / 2, n.text);
        }
    });
}

function open(root, app) {
    const pick = (side) =>
        el('select', {
            'aria-label': side === 'a' ? 'A' : 'B',
            id: 'compare-' + side,
            onchange: (e) => app.set({ [side]: e.target.value }),
        });
    const picks = { a: pick('a'), b: pick('b') };
    const choice = (key, label, words) =>
        el(
            'label.choice',
            null,
            label + ' ',
            el(
                'select',
                { 'aria-label': label, id: 'compare-' + key, onchange: (e) => app.set({ [key]: e.target.value }) },
                Object.entries(words).map(([v, text]) => el('option', { value: v }, text)),
            ),
        );
    const swap = () => app.set({ a: app.state().b, b: app.state().a });
    const heads = { a: el('span'), b: el('span') };
    root.append(
        el(
            'section.panel.sides',
            { 'aria-label': 'What is compared' },
            el('label', null, el('b', null, 'A ━ '), picks.a, ' ', heads.a),
            el('label', null, el('b', null, 'B ╍ '), picks.b, ' ', heads.b),
            el(
                'span.tools',
                null,
                el('button', { type: 'button', onclick: swap }, 'swap'),
                el('button', { type: 'button', onclick: forget }, 'forget these marks'),
            ),
        ),
    );
    const top = panel(root, { title: 'From their beginnings', height: HEIGHT + 'px' });
    const picture = band(top.body, { zoom: both }, { height: HEIGHT, label: 'A and B on one axis', paint: lines });
    const tools = [choice('by', 'by', METRICS), choice('group', 'group by', GROUPS)];
    const p = panel(root, { title: 'Difference', tools, height: '16rem' });
    let doubt = '';

    const by = () => byOf(app.state().by);
    const amount = (v, span) => {
        if (v === null) return NONE;
        return by().rates ? rate(by().draw, (v * 1000) / span) : value(by().draw, v);
    };
    /* Ranges may differ in length: of what adds up the rate is compared. */
    const level = (v, span) => (v === null ? 0 : by().rates ? (v * 1000) / span : v);
    const show = (v) => (by().rates ? rate(by().draw, v) : value(by().draw, v));
    const grey = (content) => (doubt ? el('span.dim', { title: doubt }, content) : content);
    const t = table(p.body, {
        label: 'What differs',
        key: (r) => r.label,
        sort: app.state().sort || '-diff',
        height: '60vh',
        onSort: (sort) => app.set({ sort }, { replace: true }),
        onSelect: (r) => {
            app.set({ sel: r.label }, { replace: true });
            app.say(`${r.label}: A ${amount(r.a, r.spanA)}, B ${amount(r.b, r.spanB)}`);
        },
        columns: [
            {
                key: 'label',
                title: 'NAME',
                wide: true,
                cell: (r) => [swatch(r.image), r.label],
                plain: (r) => r.label,
                sort: (r) => r.label,
            },
            { key: 'a', title: 'A', width: '14ch', right: true, cell: (r) => amount(r.a, r.spanA), sort: (r) => r.a },
            { key: 'b', title: 'B', width: '14ch', right: true, cell: (r) => amount(r.b, r.spanB), sort: (r) => r.b },
            {
                key: 'diff',
                title: 'B − A',
                width: '15ch',
                right: true,
                cell: (r) => grey((r.diff < 0 ? '−' : '+') + show(Math.abs(r.diff))),
                sort: (r) => Math.abs(r.diff),
            },
            {
                key: 'ratio',
                title: 'B ÷ A',
                width: '11ch',
                right: true,
                cell: (r) => grey(r.ratio === null ? NONE : '× ' + r.ratio.toFixed(r.ratio < 10 ? 2 : 0)),
                sort: (r) => r.ratio,
            },
            {
                key: 'state',
                title: '',
                width: '9ch',
                cell: (r) =>
                    r.a === null ? el('b.good', null, '+ new') : r.b === null ? el('b.warn', null, '− gone') : '',
                sort: (r) => (r.a === null ? 'new' : r.b === null ? 'gone' : ''),
            },
        ],
    });

    function swatch(name) {
        const s = el('span.swatch');
        s.style.background = ofName(name).fill;
        return s;
    }

    function forget() {
        for (const side of SIDES) remove(app.state()[side]);
        app.set({ a: null, b: null });
    }

    const chosen = () => SIDES.map((side) => read(app.state()[side]));

    /* Zooming takes the same part of both. */
    function both(from, to) {
        const sides = chosen();
        if (from === 'back' || sides.some((m) => !m)) return;
        const patch = {};
        sides.forEach((m, k) => {
            const text = [m.host, m.name, `${compactRange(m.from + from, m.from + to)}`, m.label].join('|');
            patch[SIDES[k]] = text;
        });
        app.set(patch);
    }

    const compactRange = (from, to) => [from, to].map((ms) => rfc3339(ms).replace(/[-:]/g, '')).join('..');
    const asked = (m, extra) => ({
        host: m.host,
        name: m.name,
        since: rfc3339(m.from),
        until: rfc3339(m.to),
        ...extra,
    });
    const rangeText = (m) => `${rfc3339(m.from).slice(0, 10)} ${clock(m.from, 1000)} – ${clock(m.to, 1000)}`;

    function controls() {
        const state = app.state();
        const known = marks();
        for (const side of SIDES) {
            const list = known.includes(state[side]) || !read(state[side]) ? known : [state[side], ...known];
            put(
                picks[side],
                el('option', { value: '' }, known.length ? 'choose a mark' : 'no marks yet: press . on a view'),
                list.map((m) => el('option', { value: m }, `${read(m).label}, ${short(read(m).to - read(m).from)}`)),
            );
            picks[side].value = read(state[side]) ? state[side] : '';
        }
        p.head.querySelector('#compare-by').value = Object.hasOwn(METRICS, state.by) ? state.by : 'cpu';
        p.head.querySelector('#compare-group').value = Object.hasOwn(GROUPS, state.group) ? state.group : 'image';
    }

    function told(side, m, answer) {
        const c = answer.coverage;
        put(
            heads[side],
            `${m.host || 'all hosts'}${m.name ? ', ' + m.name : ''}, ${rangeText(m)}, `,
            el(c.ppm < ENOUGH_PPM ? 'b.warn' : 'span', null, `coverage ${c.at_most ? '≤ ' : ''}${ppm(c.ppm)}`),
        );
    }

    function joined([a, b], sides, group) {
        const all = new Map();
        [a, b].forEach((answer, k) => {
            for (const row of rowsOf(answer, group)) {
                const { label } = row;
                const image = group === 'image-user' ? row.name : label;
                const one = all.get(label) ?? { label, image, a: null, b: null };
                one[SIDES[k]] = row.v[by().draw] ?? null;
                all.set(label, one);
            }
        });
        const spans = sides.map((m) => m.to - m.from);
        return [...all.values()].map((r) => {
            const [x, y] = [level(r.a, spans[0]), level(r.b, spans[1])];
            return { ...r, spanA: spans[0], spanB: spans[1], diff: y - x, ratio: x > 0 && r.b !== null ? y / x : null };
        });
    }

    function differences(pair, sides, group) {
        const poor = pair
            .map((answer, k) => [SIDES[k].toUpperCase(), answer.coverage.ppm])
            .filter(([, v]) => v < ENOUGH_PPM);
        doubt = poor.map(([side, v]) => `Of ${side} only ${ppm(v)} arrived: the difference may be that.`).join(' ');
        const rows = joined(pair, sides, group);
        const what = group === 'image-user' ? 'images of users' : group + 's';
        p.note(doubt ? el('b.warn', null, doubt) : `${count(rows.length)} ${what}`);
        t.rows(rows);
        t.select(app.state().sel || null);
    }

    function lineOf(answer, m) {
        const { series } = answer;
        const values = Array.from({ length: series.n }, (_, i) => {
            const some = series.groups.map((g) => g.columns[by().draw]?.avg[i] ?? null).filter((v) => v !== null);
            const sum = some.reduce((x, y) => x + y, 0);
            return some.length ? (by().rates ? (sum * 1e9) / Number(series.step_ns) : sum) : null;
        });
        const nones = nothings(answer);
        const known = { from: m.from, to: m.to }; /* where any host has data */
        for (const n of nones) {
            if (n.late) known.to = n.from;
            else known.from = n.until;
        }
        const reaches = reachesOf(series, by().draw, by().rates);
        return { series: { ...series, from: m.from }, hosts: answer.hosts, values, nones, known, reaches };
    }

    async function update(changed) {
        controls();
        if (changed?.size && [...changed].every((key) => ['sel', 'sort'].includes(key))) return;
        const sides = chosen();
        const missing = sides.some((m) => !m);
        for (const side of SIDES) if (missing) put(heads[side]);
        const none = () =>
            missing
                ? { text: 'Press . on any view to mark its hosts and range, then d; or choose two marks above.' }
                : null;
        const pairs = (name, extra) => async (signal) => {
            if (missing) return { partial: false, pair: [] };
            const pair = await Promise.all(sides.map((m) => app.ask(name, asked(m, extra), signal)));
            return {
                pair,
                partial: pair.some((x) => x.partial),
                notes: pair.flatMap((x, k) => x.notes.map((n) => `${SIDES[k].toUpperCase()}: ${n}`)),
            };
        };
        const group_by = Object.hasOwn(GROUPS, app.state().group) ? app.state().group : 'image';
        await Promise.all([
            top.load(
                pairs('series', { group_by: 'fleet', metric: by().draw, buckets: BUCKETS }),
                ({ pair }) => {
                    const drawn = pair.map((answer, k) => lineOf(answer, sides[k]));
                    /* No axis is made for growth of longer than its bucket. */
                    const own = drawn.flatMap((s) => s.values.filter((_, i) => !s.reaches?.[i]));
                    const most = own.reduce((x, y) => Math.max(x, y ?? 0), 0);
                    top.note(`${by().title}, up to ${show(most)}`);
                    pair.forEach((answer, k) => told(SIDES[k], sides[k], answer));
                    picture.show({
                        relative: true,
                        from: 0,
                        until: Math.max(...sides.map((m) => m.to - m.from)),
                        sides: drawn,
                        most,
                    });
                },
                { empty: none },
            ),
            p.load(
                pairs('top', { group_by, metric: [...new Set([by().by, by().draw])], limit: LIMIT }),
                ({ pair }) => differences(pair, sides, group_by),
                { empty: none },
            ),
        ]);
    }

    return {
        update,
        close() {
            top.close();
            picture.close();
            p.close();
            t.close();
        },
    };
}

const args = () => [];

export default { view: 'diff', key: '8', title: 'Compare', uses: [], open, args };
