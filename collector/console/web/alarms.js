/* What the collector's rules say of their subjects, as its answers (`rules`) have it: events of kind rule.
 *
 *   rowsOf(answer, now) → [{f: the notice's fields, since (ms), host, state: one of STATES, text}]
 *   valueText(v, unit)  → as people read it                       sign(row) → its state as a node
 *   items(app, answer)  → what fires or is not known, as items of a list        summary(app, answer) → how many fire */
import { el } from './el.js';
import { bytes, count, NONE, percent, small } from './format.js';
import { clock, parse, short } from './time.js';

export const STATES = {
    firing: ['firing', '✕', 'bad', 0],
    unknown: ['unknown', '?', 'warn', 1],
    pending: ['pending', '◔', 'dim', 2],
    ok: ['ok', '●', 'good', 3],
};

/* One that is true, and not for long enough yet, is ok with a reason. */
export const stateOf = (f) => STATES[f.state === 'ok' && f.reason ? 'pending' : f.state] ?? STATES.unknown;

export function valueText(v, unit) {
    if (v === undefined || v === null) return NONE;
    switch (unit) {
        case 'ns':
            return short(v / 1e6);
        case 'bytes':
            return bytes(v);
        case 'bytes/s':
            return bytes(v) + '/s';
        case 'share':
            return percent(v * 100);
        case '/s':
            return small(v) + '/s';
        default:
            return small(v);
    }
}

/* The events of an answer as rows; `since`: of what is firing since when, else since when it is so. */
export function rowsOf(answer, now) {
    return answer.events.map((e, i) => {
        const f = e.fields ?? {};
        const since = f.since ? parse(f.since.replace(/(\.\d{1,9})\d*/, '$1'), now) : e.time_ms;
        return { i, f, since, host: answer.hosts[e.host]?.name ?? '', state: stateOf(f), text: e.text ?? '' };
    });
}

export const sign = (row) =>
    el('span', null, el(`span.${row.state[2]}`, { 'aria-hidden': true }, row.state[1]), ' ', row.state[0]);

/* What fires, and what is not known, as items of a list: for the view of a host. */
export function items(app, answer) {
    return rowsOf(answer, app.now())
        .filter((row) => row.state === STATES.firing || row.state === STATES.unknown)
        .map((row) =>
            el(
                'li',
                null,
                el('span.dim', null, clock(row.since, 1000) + ' '),
                sign(row),
                ' ',
                el('a', { href: app.link({ view: 'rules', host: row.host }) }, row.f.rule),
                ` ${row.f.subject ?? ''} ${row.f.reason ?? row.text}`,
            ),
        );
}

/* How many fire, with the way there. */
export function summary(app, answer) {
    const n = answer.events.length;
    const words = n ? `${count(n)}${answer.more ? ' and more' : ''} firing` : 'none fires';
    return el(n ? 'b.bad' : 'span', null, el('a', { href: app.link({ view: 'rules' }) }, words));
}
