/* Fleet: who is there, who is busy, what is missing. The first hosts by name come alone, so that there is something to
 * read at once; what fills a row (two hours of heat, what arrived) is asked for rows in sight only, unless the order or
 * the groups need that of all. */
import { summary as firing } from '../alarms.js';
import { el, put } from '../el.js';
import { bytes, count, NONE, percent, ppm } from '../format.js';
import { strip } from '../heat.js';
import { keys } from '../keys.js';
import { offer, panel } from '../panel.js';
import { grouped, matcher } from '../rows.js';
import { table } from '../table.js';
import { clock, nsMs, short } from '../time.js';

const SOON_MS = 14 * 86400e3;
const RECENT = 10;
const PULSE_MS = 30e3;
const HEAT_PX = 200;
const FIRST = 64; /* hosts of the first answer */
const AT_ONCE = 64; /* of one question about rows in sight */
const PAUSE_MS = 100; /* between two of these */

const STATES = [
    ['revoked', '⊘', 'bad'],
    ['forgotten', '–', 'dim'],
    ['connected', '●', 'good'],
    ['ended', '■', 'dim'],
];

function stateOf(host) {
    const found = STATES.find(([key]) => host[key]);
    const [name, sign, kind] = found || ['silent', '○', 'warn'];
    return { name: name === 'connected' && host.replay ? 'replay' : name, sign, kind };
}

/* Its class and labels. */
const known = (h) =>
    [h.class, ...Object.entries(h.labels ?? {}).map(([k, v]) => `${k}=${v}`)].filter(Boolean).join(', ') || null;

const mean = (values) => {
    let [sum, n] = [0, 0];
    for (const v of values) if (v !== null && v !== undefined) [sum, n] = [sum + v, n + 1];
    return n ? sum / n : null;
};

const byName = (state) => (state.sort || 'host') === 'host';

const first = (state) => (byName(state) ? ['hosts', { host: state.host, limit: FIRST }] : null);

function open(root, app) {
    const byPrefix = el(
        'button',
        { type: 'button', title: 'One row for hosts whose names differ by their number (g)', onclick: () => fold() },
        'by prefix',
    );
    const fold = () =>
        app.set({ group: app.state().group === 'prefix' ? null : 'prefix', sel: null }, { replace: true });
    const filter = el('input', {
        type: 'search',
        placeholder: 'filter: web-* db?',
        'aria-label': 'Filter hosts',
        size: '22',
        value: app.state().q,
        spellcheck: 'false',
        oninput: () => app.set({ q: filter.value.trim() }, { replace: true }),
    });
    const facts = el('div.facts', { 'aria-label': 'The fleet' });
    root.append(facts);
    const p = panel(root, { title: 'Hosts', tools: [byPrefix, filter], height: '20rem' });
    let rows = [];
    let turn = 0; /* of update: what arrived is asked anew with each */
    let covered = null; /* the turn whose coverage all rows have */
    let pulsed_ms = 0; /* when all rows had theirs */
    let looking = false;
    let again = false; /* something was wanted meanwhile */
    let fleet = null;
    let alarms = null; /* what fires, as the collector's rules say */

    const clockText = (h) => {
        const off = nsMs(h.offset_ns);
        if (Number.isNaN(off)) return NONE;
        return (
            (off < 0 ? '−' : '+') +
            (Math.abs(off) / 1000).toFixed(2) +
            ' s' +
            (h.offset_error_ns === null ? ' ±?' : Math.abs(off) >= 1000 ? ` ±${short(nsMs(h.offset_error_ns))}` : '')
        );
    };
    const certificate = (h) => {
        const left = nsMs(h.not_after_ns) - app.now();
        if (Number.isNaN(left)) return NONE;
        const words = left < 0 ? 'ended' : short(left).replace(/ \d+ h$/, '');
        return left < SOON_MS ? el('b.bad', null, words + ' !') : words;
    };
    const lastText = (row) =>
        row.group ? 'connected' : row.state.name === 'silent' ? `since ${clock(nsMs(row.h.last_ns), 1000)}` : '';
    const strips = (values, max, width, text) => (row) =>
        row[values]
            ? strip(row[values], { present: row.present, max: max(row), width, label: text(row) })
            : el('span.dim', null, NONE);
    const wide = (n) =>
        strips(
            'cpu',
            (row) => (row.h.cpus || 1) * 100,
            HEAT_PX,
            (row) => `CPU of the last two hours: ${percent(n(row))} of ${row.h.cpus} CPUs now`,
        );

    const columns = [
        {
            key: 'host',
            title: 'HOST',
            wide: true,
            cell: (row) =>
                row.group
                    ? row.h.name
                    : el('a', { href: app.link({ view: 'h', args: [row.h.name] }), title: known(row.h) }, row.h.name),
            sort: (row) => row.h.name,
            plain: (row) => row.h.name,
        },
        {
            key: 'state',
            title: 'STATE',
            width: '15ch',
            sort: (row) => row.state.name,
            plain: (row) => row.state.name,
            cell: (row) =>
                el(
                    'span',
                    null,
                    el(`span.${row.state.kind}`, { 'aria-hidden': true }, row.state.sign),
                    ' ',
                    row.state.name,
                    row.h.clones
                        ? el(
                              'b.bad',
                              { title: 'more than one machine reports under this identity' },
                              ` ×${row.h.clones + 1}`,
                          )
                        : '',
                ),
        },
        { key: 'since', title: '', width: '14ch', cell: lastText },
        {
            key: 'cpu',
            title: 'CPU, last 2 h',
            width: '216px',
            hint: 'a column is 30 s, as dark as all CPUs of the host are busy',
            cell: wide((row) => row.now),
            sort: (row) => row.now && row.now / (row.h.cpus || 1),
            down: true,
            plain: (row) => row.now,
        },
        {
            key: 'now',
            title: 'CPU',
            width: '9ch',
            right: true,
            cell: (row) => percent(row.now),
            sort: (row) => row.now,
            hint: 'the newest 30 s, in percent of one CPU',
        },
        {
            key: 'change',
            title: 'CHANGE',
            width: '10ch',
            right: true,
            sort: (row) => (row.change === null ? null : Math.abs(row.change)),
            cell: (row) => (row.change === null ? NONE : (row.change < 0 ? '−' : '+') + percent(Math.abs(row.change))),
            hint: 'mean CPU of the last 5 minutes less that of the two hours before',
        },
        {
            key: 'mem',
            title: 'MEMORY',
            width: '10ch',
            right: true,
            cell: (row) => bytes(row.memory),
            sort: (row) => row.memory,
        },
        {
            key: 'memory',
            title: 'mem, 2 h',
            width: '100px',
            hint: 'as dark as the most of this host in the two hours',
            cell: strips(
                'used',
                (row) => row.most,
                84,
                (row) => `Memory of the last two hours, now ${bytes(row.memory)}`,
            ),
            plain: (row) => row.memory,
        },
        {
            key: 'proc',
            title: 'PROC',
            width: '8ch',
            right: true,
            cell: (row) => count(row.h.processes),
            sort: (row) => row.h.processes,
        },
        {
            key: 'cover',
            title: 'COVER',
            width: '10ch',
            right: true,
            sort: (row) => row.cover,
            cell: (row) => (row.cover === null ? NONE : el(row.cover < 1e6 ? 'b.warn' : 'span', null, ppm(row.cover))),
            hint: 'what of the range arrived',
            plain: (row) => ppm(row.cover),
        },
        {
            key: 'clock',
            title: 'CLOCK',
            width: '12ch',
            right: true,
            cell: (row) => clockText(row.h),
            sort: (row) => Math.abs(nsMs(row.h.offset_ns)),
            hint: 'how far the host’s clock is ahead of the collector’s',
        },
        {
            key: 'cert',
            title: 'CERT',
            width: '9ch',
            right: true,
            cell: (row) => certificate(row.h),
            sort: (row) => nsMs(row.h.not_after_ns),
        },
        {
            key: 'source',
            title: 'SOURCE',
            width: '11ch',
            cell: (row) => [row.h.source, row.h.polled ? ' polled' : ''].join(''),
            sort: (row) => row.h.source,
            cut: true,
        },
    ];
    const t = table(p.body, {
        label: 'Hosts',
        columns,
        key: (row) => row.h.id,
        sort: app.state().sort || 'host',
        height: 'calc(100vh - 13rem)',
        onSort: (sort) => app.set({ sort }, { replace: true }),
        onSight: () => look(),
        onSelect: (row, id) => {
            app.set({ sel: id }, { replace: true });
            app.say(`${row.h.name}, ${row.state.name}, CPU ${percent(row.now)}, ${count(row.h.processes)} processes`);
        },
        onOpen: into,
    });

    function into(row) {
        if (row.group) app.set({ host: row.h.name, group: null, sel: null });
        else app.go({ view: 'h', args: [row.h.name] });
    }

    function filtered() {
        const fits = matcher(app.state().q);
        const some = rows.filter((row) => fits(row.h.name));
        const together = app.state().group === 'prefix';
        byPrefix.setAttribute('aria-pressed', String(together));
        p.note(
            some.length === rows.length ? `${count(rows.length)}` : `${count(some.length)} of ${count(rows.length)}`,
        );
        t.rows(together ? grouped(some) : some);
        t.select(app.state().sel || null);
    }

    function hosts(answer) {
        const old = new Map(rows.map((row) => [row.h.id, row]));
        rows = answer.hosts.map((h) => ({
            cpu: null,
            used: null,
            present: null,
            change: null,
            cover: null,
            pulsed_ms: 0,
            covered: null,
            ...old.get(h.id),
            h,
            now: h.cpu_percent,
            memory: h.working_set_size === null ? null : Number(h.working_set_size),
            state: stateOf(h),
        }));
        filtered();
        summary();
    }

    const byId = () => new Map(rows.map((row) => [row.h.id, row]));

    /* The slot that is being filled, and the one in which the host began, lack nothing. */
    function finished(series, present, h) {
        const step = Number(series.step_ns) / 1e6;
        const begun = (i) => series.t0_ms + i * step >= nsMs(h.first_ns);
        const over = (i) => !h.connected || series.t0_ms + (i + 1) * step <= nsMs(h.last_ns);
        return present?.map((ppm_, i) => (begun(i) && over(i) ? ppm_ : null)) ?? null;
    }

    function pulse(answer) {
        const known = byId();
        answer.series.groups.forEach((g, i) => {
            const row = known.get(answer.hosts[answer.rows.host[i]].id);
            if (!row) return;
            row.pulsed_ms = Date.now();
            row.cpu = g.columns.cpu_percent?.avg || null;
            row.present = finished(answer.series, answer.series.present_by_host?.[i], row.h);
            const some = (row.cpu || []).filter((v) => v !== null);
            const before = mean(some.slice(0, -RECENT));
            row.change = before === null || some.length < 2 * RECENT ? null : mean(some.slice(-RECENT)) - before;
            row.used = g.columns.working_set_size?.avg || null;
            row.most = (row.used || []).reduce((a, b) => Math.max(a, b ?? 0), 0);
        });
    }

    function arrived(answer, of) {
        const known = byId();
        for (const c of answer.coverage?.hosts ?? []) {
            const row = known.get(answer.hosts[c.host]?.id);
            if (row) Object.assign(row, { cover: c.missing ? 0 : c.ppm, covered: of });
        }
    }

    const fact = (k, ...v) => el('span', null, el('span.k', null, k), v);

    /* Its coverage is that of all hosts in the range. */
    function overview(answer) {
        fleet = answer;
        const all = { ...answer, hosts: rows.map((row) => row.h) };
        app.cover(all);
        summary();
        const offers = answer.coverage.ppm === 0 ? app.offers(all) : [];
        if (rows.length && offers.length) {
            p.note('No host has data in this range. ', ...offers.map((o) => offer(o.text, o.run)));
        }
    }

    function summary() {
        if (!fleet) return;
        const o = fleet.overview;
        /* What is now: without hosts that ended, fell silent or have not told yet. */
        const there = rows.filter((row) => row.h.connected && row.now !== null);
        const busy = there.reduce((sum, row) => sum + row.now, 0);
        const cpus = there.reduce((sum, row) => sum + (row.h.cpus || 0), 0);
        put(
            facts,
            fact('hosts', el('b', null, count(o.hosts))),
            fact('connected', count(o.connected)),
            fact('silent', el(o.silent ? 'b.warn' : 'span', null, count(o.silent))),
            o.clones ? fact('clones', el('b.bad', null, count(o.clones))) : null,
            fact('processes', count(o.processes)),
            alarms ? fact('rules', firing(app, alarms)) : null,
            cpus ? fact('CPU', `${percent(busy / cpus)} of ${count(cpus)} CPUs`) : null,
            o.total_bytes !== undefined && o.ceiling_bytes
                ? fact(
                      'store',
                      `${bytes(o.total_bytes)} of ${bytes(o.ceiling_bytes)}`,
                      o.next_in_ns
                          ? `, next: ${o.tiers?.[o.next_tier]?.name ?? ''} in ${short(Number(o.next_in_ns) / 1e6)}`
                          : '',
                  )
                : null,
        );
    }

    const also = (name, params, draw) =>
        app.ask(name, params).then(draw, (e) => {
            if (!e.code) throw e;
            p.note(`${count(rows.length)} · ${name}: ${e.message}`);
        });

    /* All pages; false: one was refused. */
    async function pages(name, params, draw) {
        for (let cursor = ''; cursor !== null;) {
            let answer = null;
            await also(name, { ...params, cursor }, (a) => draw((answer = a)));
            if (!answer) return false;
            cursor = answer.more ? answer.cursor : null;
        }
        return true;
    }

    /* Whether the order or the groups need what rows out of sight have. */
    const needs = (...keys) =>
        app.state().group === 'prefix' || keys.includes((app.state().sort || '').replace(/^-/, ''));

    /* What is told of a row is not older than this turn, and its heat half a minute. */
    function wanted(list) {
        const old = Date.now() - PULSE_MS;
        const some = (keep) =>
            list
                .filter(keep)
                .slice(0, AT_ONCE)
                .map((row) => row.h.id);
        return {
            pulse: some((row) => !row.group && row.pulsed_ms < old),
            cover: some((row) => !row.group && row.covered !== turn),
        };
    }

    async function fill() {
        const host = app.state().host;
        if (needs('change') && pulsed_ms < Date.now() - PULSE_MS) {
            pulsed_ms = Date.now();
            if (await pages('pulse', { host }, pulse)) filtered();
        }
        if (needs('cover') && covered !== turn) {
            const of = (covered = turn);
            if (await pages('coverage', app.params(), (a) => arrived(a, of))) filtered();
        }
        for (;;) {
            const of = turn; /* the next one may begin meanwhile */
            const { pulse: ids, cover } = wanted(t.sight());
            if (!ids.length && !cover.length) return;
            await Promise.all([
                ids.length && also('pulse', { ids }, pulse),
                cover.length && also('coverage', app.params({ ids: cover }), (a) => arrived(a, of)),
            ]);
            for (const [list, key, value] of [
                [ids, 'pulsed_ms', Date.now()],
                [cover, 'covered', of],
            ]) {
                const asked = new Set(list); /* also of those that the answer has not */
                for (const row of rows) if (asked.has(row.h.id)) row[key] = value;
            }
            t.redraw();
            await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        }
    }

    /* One at a time; what came into sight meanwhile is seen to in its turn. */
    function look() {
        again = looking;
        if (looking || !rows.length) return;
        const w = wanted(t.sight());
        if (!w.pulse.length && !w.cover.length && !needs('change', 'cover')) return;
        looking = true;
        fill().then(
            () => {
                looking = false;
                if (again) look();
            },
            (e) => {
                looking = false;
                if (e.name !== 'AbortError') throw e;
            },
        );
    }

    const rules = () =>
        also('rules', { host: app.state().host, firing: true, limit: 100 }, (answer) => {
            alarms = answer;
            summary();
        });

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => ['q', 'sel', 'sort', 'group'].includes(key))) {
            if (changed.has('q') || changed.has('group')) filtered();
            if (changed.has('sort') || changed.has('group')) look();
            if (changed.has('sel')) t.select(app.state().sel || null);
            return;
        }
        const host = app.state().host;
        const states = {
            empty: (answer) =>
                answer.hosts.length
                    ? null
                    : host
                      ? {
                            text: `No host is named ${host}.`,
                            offers: [{ text: 'Show all hosts', run: () => app.set({ host: null }) }],
                        }
                      : {
                            text: 'No host has reported yet. Enrol one with a token of procfleet-collector pki.',
                        },
        };
        turn++;
        if (!rows.length && byName(app.state())) {
            const begin = await p.load((signal) => app.ask(...first(app.state()), signal), hosts, states);
            if (!begin) return;
            if (!begin.more) return void (await Promise.all([also('overview', app.params(), overview), rules()]));
        }
        const all = await p.load((signal) => app.askAll('hosts', { host }, signal), hosts, states);
        if (all) await Promise.all([also('overview', app.params(), overview), rules()]);
    }

    const stop = keys({
        Enter: [
            'open the host',
            () => {
                const row = t.shown().find((r) => r.h.id === t.selected());
                if (!row) return false;
                return into(row);
            },
            'selection',
        ],
        g: ['group by prefix', fold, 'order'],
        e: ['events', () => app.go({ view: 'events' }), 'views'],
        ArrowDown: ['next row', () => t.grid.focus(), 'selection'],
    });
    return {
        update,
        step: () => 10e3,
        close() {
            stop();
            p.close();
            t.close();
        },
    };
}

export default { view: '', key: '1', title: 'Fleet', uses: ['host', 'range'], open, first };
