/* Losses: what of each host arrived over the range, and of the one that is selected the ledger: as a flow from the
 * kernel to the store, as sentences with what to do, and as a table. */
import { band } from '../band.js';
import { theme } from '../colour.js';
import { el, put } from '../el.js';
import { count, NONE, ppm } from '../format.js';
import { drawLoss, drawNothing, nothings, stretches } from '../hatch.js';
import { size } from '../heat.js';
import { keys } from '../keys.js';
import { panel } from '../panel.js';
import { whatIs, whatToDo } from '../reasons.js';
import { table } from '../table.js';
import { clock, nsMs } from '../time.js';

const HEIGHT = 92;
const FULL = 1e6;
const MAP_HEIGHT = 16;

/* What arrived in each bucket, as columns up to 100 %; what is missing above them is hatched. */
function delivered(g, at, { density, atMost, nones }) {
    const room = at.bottom - at.top;
    const { t0_ms, step_ms, present } = density;
    for (let i = 0; i < present.length;) {
        const v = present[i];
        const first = i;
        while (i < present.length && present[i] === v) i++;
        const x0 = Math.round(Math.max(0, at.x(t0_ms + first * step_ms)));
        const x1 = Math.round(Math.min(at.width, at.x(t0_ms + i * step_ms)));
        if (v === null || x1 <= x0) continue;
        const h = (room * v) / FULL;
        g.fillStyle = at.t.heat[3];
        g.fillRect(x0, at.bottom - h, x1 - x0, h);
        if (v < FULL) drawLoss(g, x0, at.top, x1 - x0, Math.max(2, room - h), v, atMost);
    }
    for (const l of nones) {
        const x0 = Math.max(0, at.x(l.from));
        const w = Math.min(at.width, at.x(l.until)) - x0;
        g.clearRect(x0, at.top, w, room); /* nothing was expected, so nothing is missing; but nothing arrived either */
        drawNothing(g, x0, at.top, w, room, l.text);
    }
}

/* One host's range as a strip: whole, hatched, or dotted. */
function mapOf(row, width) {
    const canvas = el('canvas.strip', { role: 'img', 'aria-label': row.says });
    const g = size(canvas, width, MAP_HEIGHT);
    const px = width / (row.until - row.from);
    g.fillStyle = theme().heat[3];
    g.fillRect(0, 2, width, MAP_HEIGHT - 4);
    for (const s of row.stretches) {
        const [x, w] = [(s.from - row.from) * px, (s.until - s.from) * px];
        if (s.kind === 'lost') {
            drawLoss(g, x, 1, w, MAP_HEIGHT - 2, s.ppm, s.atMost);
        } else {
            g.clearRect(x, 0, w, MAP_HEIGHT);
            drawNothing(g, x, 0, w, MAP_HEIGHT, '');
        }
    }
    return canvas;
}

/* Rows of several hosts as one account. */
function summed(coverage) {
    const all = new Map();
    for (const c of coverage) {
        for (const s of c.stages ?? []) {
            const key = `${s.stage} ${s.reason}`;
            const row = all.get(key);
            if (!row) {
                all.set(key, { ...s, key, count: BigInt(s.count) });
                continue;
            }
            row.count += BigInt(s.count);
            if (s.first_ns !== null && (row.first_ns === null || BigInt(s.first_ns) < BigInt(row.first_ns))) {
                row.first_ns = s.first_ns;
            }
            if (s.last_ns !== null && (row.last_ns === null || BigInt(s.last_ns) > BigInt(row.last_ns))) {
                row.last_ns = s.last_ns;
            }
        }
    }
    return [...all.values()];
}

const isLoss = (s) => s.count > 0n && (s.loss || (s.role === 'lost' && s.unit === 'ticks'));
const amount = (s) => `${count(Number(s.count))} ${s.unit}`;

/* A stage as a box: what came in, what it handed on, what stayed behind and what went missing. */
function stageBox(name, rows) {
    const of = (role) => rows.filter((r) => r.role === role && r.count > 0n);
    const line = (r, kind) => el(`span.${kind}`, null, `${r.reason} ${amount(r)}`);
    const lost = rows.filter(isLoss);
    return el(
        lost.length ? 'li.stage-box.lossy' : 'li.stage-box',
        null,
        el('b', null, name),
        of('in').map((r) => line(r, 'dim')),
        of('out').map((r) => line(r, 'dim')),
        of('held').map((r) => line(r, 'dim')),
        of('dropped')
            .filter((r) => !isLoss(r))
            .map((r) => line(r, 'dim')),
        lost.map((r) => el('span.warn', null, '✕ ', line(r, 'warn'))),
    );
}

function flow(rows) {
    const stages = new Map();
    for (const r of rows) {
        if (!stages.has(r.stage)) stages.set(r.stage, []);
        stages.get(r.stage).push(r);
    }
    const some = [...stages].filter(([, list]) => list.some((r) => r.role !== 'why' && r.count > 0n));
    return el(
        'ol.flow',
        { 'aria-label': 'From the kernel to the store' },
        some.map(([name, list]) => stageBox(name, list)),
    );
}

function sentences(rows) {
    const lost = rows.filter(isLoss);
    if (!lost.length) return el('p.dim', null, 'Nothing was lost here in this range.');
    return el(
        'ul.losses',
        null,
        lost.map((r) =>
            el(
                'li',
                null,
                el('b.warn', null, `✕ ${amount(r)}`),
                ' ',
                el('code', null, `${r.stage} ${r.reason}`),
                r.first_ns ? ` ${clock(nsMs(r.first_ns), 1000)}–${clock(nsMs(r.last_ns), 1000)}` : '',
                el('br'),
                whatIs(r.stage, r.reason) || 'A reason this page does not know: it counts as a loss of events.',
                ' ',
                el('span.dim', null, whatToDo(r.stage, r.reason)),
            ),
        ),
    );
}

function open(root, app) {
    const over = panel(root, { title: 'What arrived', height: HEIGHT + 'px' });
    const label = 'Share that arrived, over the range';
    const picture = band(over.body, app, { height: HEIGHT, label, paint: delivered });
    const p = panel(root, { title: 'Hosts', height: '8rem' });
    const ledger = panel(root, { title: 'Ledger', height: '12rem' });
    const story = el('div');
    const mapWidth = () => Math.max(120, Math.min(900, root.clientWidth - 760));

    const share = (v, atMost) =>
        v === null ? NONE : el(v < FULL ? 'b.warn' : 'span', null, (atMost ? '≤ ' : '') + ppm(v));
    const t = table(p.body, {
        label: 'Coverage of hosts',
        key: (row) => row.name,
        sort: app.state().sort || 'cover',
        height: '40vh',
        onSort: (sort) => app.set({ sort }, { replace: true }),
        onSelect: (row) => {
            app.set({ sel: row.name }, { replace: true });
            app.say(row.says);
        },
        onOpen: (row) => app.set({ view: 'h', args: [row.name] }),
        columns: [
            { key: 'host', title: 'HOST', wide: true, cell: (r) => r.name, sort: (r) => r.name },
            {
                key: 'cover',
                title: 'COVERAGE',
                width: '12ch',
                right: true,
                cell: (r) => share(r.c.missing ? 0 : r.c.ppm, r.c.at_most),
                sort: (r) => (r.c.missing ? 0 : r.c.ppm),
            },
            { key: 'ticks', title: 'SAMPLES', width: '11ch', right: true, cell: (r) => share(r.c.ticks_ppm) },
            {
                key: 'events',
                title: 'EVENTS',
                width: '11ch',
                right: true,
                cell: (r) => share(r.c.events_ppm, r.c.at_most),
            },
            {
                key: 'lost_ticks',
                title: 'LOST SAMPLES',
                width: '15ch',
                right: true,
                cell: (r) => count(r.c.lost_ticks),
                sort: (r) => r.c.lost_ticks,
            },
            {
                key: 'lost_events',
                title: 'LOST EVENTS',
                width: '14ch',
                right: true,
                cell: (r) => (r.c.at_most ? '≥ ' : '') + count(r.c.lost_events),
                sort: (r) => r.c.lost_events,
            },
            {
                key: 'map',
                title: 'OVER THE RANGE',
                width: mapWidth() + 20 + 'px',
                cell: (r) => mapOf(r, mapWidth()),
                plain: (r) => r.says,
            },
        ],
    });
    const book = el('div');
    ledger.body.append(story, book);
    const rows = table(book, {
        label: 'Ledger',
        key: (r) => r.key,
        height: '50vh',
        onSelect: (r) => app.say(`${r.stage} ${r.reason}: ${amount(r)}, ${r.role}`),
        mark: (r, tr) => isLoss(r) && tr.classList.add('hole'),
        columns: [
            { key: 'stage', title: 'STAGE', width: '13ch', cell: (r) => r.stage },
            { key: 'reason', title: 'REASON', width: '22ch', cell: (r) => r.reason },
            { key: 'role', title: 'ROLE', width: '10ch', cell: (r) => r.role },
            {
                key: 'count',
                title: 'COUNT',
                width: '13ch',
                right: true,
                cell: (r) => count(Number(r.count)),
                sort: (r) => Number(r.count),
            },
            { key: 'unit', title: 'UNIT', width: '10ch', cell: (r) => r.unit },
            { key: 'loss', title: 'LOSS', width: '8ch', cell: (r) => (isLoss(r) ? el('b.warn', null, '✕ loss') : '') },
            {
                key: 'when',
                title: 'FROM – TO',
                width: '20ch',
                cell: (r) => (r.first_ns ? `${clock(nsMs(r.first_ns), 1000)}–${clock(nsMs(r.last_ns), 1000)}` : ''),
            },
            { key: 'what', title: 'WHAT', wide: true, cell: (r) => whatIs(r.stage, r.reason) },
        ],
    });

    function hosts(answer) {
        const [from, until] = [nsMs(answer.since_ns), nsMs(answer.until_ns)];
        const list = stretches(answer);
        const all = answer.coverage.hosts.map((c) => {
            const name = answer.hosts[c.host].name;
            const parts = list.filter((s) => s.host === c.host || s.host < 0);
            const figure = c.missing ? 'no data' : `${ppm(c.ppm)} delivered`;
            const says = [`${name}: ${figure}`, ...parts.map((s) => s.text)].join('. ');
            return { name, c, from, until, stretches: parts, says };
        });
        p.note(`${count(all.filter((r) => r.c.ppm < FULL || r.c.missing).length)} of ${count(all.length)} with losses`);
        t.rows(all);
        t.select(app.state().sel || null, { reveal: true });
        app.cover(answer);
        return all;
    }

    function account(answer) {
        const all = summed(answer.coverage.hosts);
        put(story, flow(all), sentences(all));
        rows.rows(all);
    }

    const none = (answer) =>
        answer.hosts.length
            ? null
            : {
                  text: 'No host has data in this range.',
                  offers: app.offers(answer),
              };

    async function loadLedger(known) {
        const sel = app.state().sel || (known === 1 ? '' : null);
        ledger.title(sel ? `Ledger of ${sel}` : 'Ledger');
        if (sel === null && known > 50) {
            put(story, el('p.dim', null, 'Select a host to see its ledger.'));
            rows.rows([]);
            return;
        }
        await ledger.load(
            async (signal) => ({
                ...(await app.ask('coverage', app.params({ ...(sel ? { host: sel } : {}), stages: true }), signal)),
                partial: false,
            }),
            account,
            { empty: none },
        );
    }

    let known = 0;

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => ['sel', 'sort'].includes(key))) {
            if (changed.has('sel')) {
                t.select(app.state().sel || null);
                await loadLedger(known);
            }
            return;
        }
        const buckets = Math.min(300, Math.max(60, Math.floor(root.clientWidth / 4)));
        await Promise.all([
            over.load(
                async (signal) => ({
                    ...(await app.ask('lifetimes', app.params({ max: 1, buckets }), signal)),
                    partial: false,
                }),
                (answer) =>
                    picture.show({
                        density: answer.lifetimes.density,
                        atMost: answer.coverage?.at_most,
                        nones: nothings(answer),
                        from: nsMs(answer.since_ns),
                        until: nsMs(answer.until_ns),
                    }),
            ),
            p.load(
                (signal) => app.ask('coverage', app.params(), signal),
                (answer) => {
                    known = hosts(answer).length;
                },
                { empty: none },
            ),
        ]);
        await loadLedger(known);
    }

    const stop = keys({ ArrowDown: ['next host', () => t.grid.focus(), 'selection'] });
    return {
        update,
        close() {
            stop();
            over.close();
            picture.close();
            p.close();
            ledger.close();
            t.close();
            rows.close();
        },
    };
}

export default { view: 'losses', key: '7', title: 'Losses', uses: ['host', 'range'], open };
