/* What an answer's coverage means for a picture of events and lives, in ms since 1970:
 *
 *   stretches(answer) → [{from, until, kind, host, text, ppm, atMost}]
 *       kind 'lost': to be hatched; 'none': not kept, or the host said nothing: grey dots; host: of answer.hosts
 *   polled(answer) → names of the hosts whose starts and ends are polled */
import { count } from './format.js';
import { clock, nsMs } from './time.js';

/* Coverage tells how much of a stretch is missing in numbers, not in shares: drawn as more than half. */
const SPAN_PPM = 400000;

function lost(span) {
    const parts = [
        [span.events, 'events'],
        [span.ticks, 'samples'],
    ].filter(([n]) => Number(n) > 0);
    return parts.map(([n, unit]) => `${count(Number(n))} ${unit}`).join(', ') || 'something';
}

export function stretches(answer) {
    const [since, until] = [nsMs(answer.since_ns), nsMs(answer.until_ns)];
    const list = [];
    const put = (host, kind, from, to, text, more) => {
        if (to > since && from < until) {
            list.push({ from: Math.max(from, since), until: Math.min(to, until), kind, host, text, ...more });
        }
    };
    for (const c of answer.coverage?.hosts ?? []) {
        const h = answer.hosts[c.host];
        for (const s of c.spans ?? []) {
            const text = `${c.at_most ? '≥ ' : ''}${lost(s)} lost on ${h.name}`;
            put(c.host, 'lost', nsMs(s.first_ns), nsMs(s.last_ns), text, { ppm: SPAN_PPM, atMost: c.at_most });
        }
        const [first, last] = [nsMs(h.first_ns), nsMs(h.last_ns)];
        if (Number.isNaN(first)) {
            put(c.host, 'none', since, until, `no data of ${h.name}`);
            continue;
        }
        put(c.host, 'none', since, first, `${h.name}: not kept before ${clock(first, 1000)}`);
        if (!h.connected) {
            put(c.host, 'none', last, until, `${h.name}: ${h.ended ? 'ended' : 'silent since'} ${clock(last, 1000)}`);
        }
    }
    return list;
}

export const polled = (answer) => (answer.hosts ?? []).filter((h) => h.polled).map((h) => h.name);
