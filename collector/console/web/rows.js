/* The tables of answers (`top`, `processes`, `history`, `tree`, `series`) as one object for each row.
 *
 *   rowsOf(answer, group) → [{i, host, info, name, pid, start, label, instances, hosts, depth, time_ms, v: {metric}}]
 *       host, info: as in the answer, or null; start: the raw creation time, a text, the process's identity with the
 *       pid; group: what was grouped by; v: numbers, or null
 *   keyOf(row)      'web-1/15199.1795…' of a process, else the label: what is selected, in links too
 *   titleOf(row)    'postgres 15199', else the label
 *   groupsOf(answer, metric, group) → [{key, label, name, values, low, high}] of a series, by rank; key and name are
 *       null
 *       for what is left over; name: what the colour hangs on
 *   processPath(row) → the args of its link        secondsOf(answer) → how long its range holds data
 *   reachesOf(series, metric, rates) → of each bucket whether its growth is of longer than it, or null
 *   matcher('web-* db?') → (name) → bool
 *   grouped(rows) → rows of the fleet's view, one for each prefix of hosts' names
 *   BY, byOf(word)  what `by=` of the address means: ordered by, drawn as */

import { nsMs } from './time.js';

/* Of a process that is known by its figures only. */
const NAMELESS = '(no name)';

export const BY = {
    cpu: { by: 'cpu_time', draw: 'cpu_percent', title: 'CPU', rates: false, key: 'c' },
    memory: { by: 'working_set_size', draw: 'working_set_size', title: 'memory', rates: false, key: 'm' },
    read: { by: 'read_bytes', draw: 'read_bytes', title: 'read', rates: true, key: 'r' },
    write: { by: 'write_bytes', draw: 'write_bytes', title: 'written', rates: true, key: 'w' },
    threads: { by: 'thread_count', draw: 'thread_count', title: 'threads', rates: false, key: 't' },
};

export function byOf(word) {
    if (Object.hasOwn(BY, word)) return BY[word];
    return {
        by: word,
        draw: word === 'cpu_time' ? 'cpu_percent' : word,
        title: word.replace(/_/g, ' '),
        rates: /_bytes$|_operations$|faults$|switches$|_time$|cycles$/.test(word) && !/private|virtual/.test(word),
    };
}

function labelOf(group, info, host) {
    if (group === 'image') return info?.name || NAMELESS;
    if (group === 'user') return info?.user ?? '–';
    if (group === 'image-user') return `${info?.name || NAMELESS}, ${info?.user || '–'}`;
    return group === 'host' ? (host?.name ?? '') : null;
}

export function rowsOf(answer, group = '') {
    const rows = answer.rows;
    if (!rows || Array.isArray(rows)) return rows || [];
    const metrics = Object.keys(rows.values || {});
    return Array.from({ length: rows.n }, (_, i) => {
        const info = answer.infos?.[rows.info?.[i]] || null;
        const host = answer.hosts?.[rows.host?.[i]] || null;
        const v = {};
        for (const metric of metrics) v[metric] = rows.values[metric][i];
        return {
            i,
            group,
            info,
            host,
            name: info?.name || NAMELESS,
            pid: info?.pid ?? null,
            start: info?.start ?? '',
            label: rows.label?.[i] || labelOf(group, info, host),
            instances: rows.instances?.[i] ?? 1,
            hosts: rows.hosts?.[i] ?? 1,
            depth: rows.depth?.[i] ?? 0,
            time_ms: rows.time_ms?.[i] ?? null,
            v,
        };
    });
}

/* What a row stands for: the instance of a process, else the label it is grouped by. */
export const keyOf = (row) =>
    row.label !== null && row.group !== 'process' ? row.label : `${row.host?.name}/${row.pid}.${row.start}`;

export const titleOf = (row) => (row.label !== null && row.group !== 'process' ? row.label : `${row.name} ${row.pid}`);

export function groupsOf(answer, metric, group) {
    const rows = rowsOf(answer, group);
    return answer.series.groups.map((g, i) => {
        const columns = g.columns[metric] || {};
        const row = rows[i];
        const rest = g.label === null;
        return {
            key: rest ? null : row ? keyOf(row) : g.label,
            label: rest ? 'rest' : row ? titleOf(row) : g.label || NAMELESS,
            name: rest ? null : group === 'process' && row ? row.name : g.label || NAMELESS,
            values: columns.avg || [],
            low: columns.min,
            high: columns.max,
        };
    });
}

export const reachesOf = (series, metric, rates) =>
    rates || metric === 'cpu_percent' ? (series.reaches ?? null) : null;

/* How long the range of an answer holds data, for rates: from the first host's first data to the last's last. */
export function secondsOf(answer) {
    const firsts = answer.hosts.map((h) => nsMs(h.first_ns)).filter((ms) => ms > 0);
    const lasts = answer.hosts.map((h) => nsMs(h.last_ns)).filter((ms) => ms > 0);
    const from = Math.max(
        nsMs(answer.since_ns),
        firsts.reduce((a, b) => Math.min(a, b), Infinity),
    );
    const to = Math.min(
        nsMs(answer.until_ns),
        lasts.reduce((a, b) => Math.max(a, b), -Infinity),
    );
    return to > from ? (to - from) / 1000 : 1;
}

export const processPath = (row) => [row.host.name, row.pid + '.' + row.start];

/* Globs as the command line has them; without a sign, what begins so. */
export function matcher(text) {
    const words = text
        .toLowerCase()
        .split(/[\s,]+/)
        .filter(Boolean)
        .map((w) => (/[*?]/.test(w) ? w : w + '*'));
    return (name) => words.length === 0 || words.some((w) => matches(w, name.toLowerCase()));
}

/* Goes back to the last star only: never slow, whatever the link says. */
function matches(glob, name) {
    let [g, n, star, from] = [0, 0, -1, 0];
    while (n < name.length) {
        if (glob[g] === '*') [star, from] = [g++, n];
        else if (g < glob.length && (glob[g] === '?' || glob[g] === name[n])) [g, n] = [g + 1, n + 1];
        else if (star >= 0) [g, n] = [star + 1, ++from];
        else return false;
    }
    while (glob[g] === '*') g++;
    return g === glob.length;
}

const total = (rows, of) => rows.reduce((sum, row) => (of(row) === null ? sum : (sum ?? 0) + of(row)), null);
const least = (rows, of) => rows.reduce((a, row) => (of(row) === null ? a : Math.min(a ?? Infinity, of(row))), null);

/* One row for the hosts whose names differ by what follows a number's beginning: 'web-*'. */
export function grouped(rows) {
    const groups = new Map();
    for (const row of rows) {
        const name = row.h.name.replace(/\d.*$/, '*');
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(row);
    }
    const columns = (some, key, fold) => {
        const long = some.reduce((n, row) => Math.max(n, row[key]?.length ?? 0), 0);
        return long ? Array.from({ length: long }, (_, i) => fold(some, (row) => row[key]?.[i] ?? null)) : null;
    };
    return [...groups].map(([name, some]) => {
        const connected = some.filter((row) => row.h.connected).length;
        const worst = (key) =>
            some
                .map((row) => row.h[key])
                .filter(Boolean)
                .sort((a, b) => Math.abs(b) - Math.abs(a))[0] ?? null;
        const ends = some
            .map((row) => row.h.not_after_ns)
            .filter(Boolean)
            .sort((a, b) => a - b);
        const used = columns(some, 'used', total);
        const rest = some.length - connected;
        return {
            h: {
                id: 'group ' + name,
                name,
                processes: total(some, (row) => row.h.processes),
                cpus: total(some, (row) => row.h.cpus),
                clones: total(some, (row) => row.h.clones),
                offset_ns: worst('offset_ns'),
                offset_error_ns: '0',
                not_after_ns: ends[0] ?? null,
                source: [...new Set(some.map((row) => row.h.source))].join(', '),
                polled: false,
            },
            state: {
                name: `${connected} of ${some.length}`,
                sign: rest ? '◐' : '●',
                kind: rest ? 'warn' : 'good',
            },
            cpu: columns(some, 'cpu', total),
            present: columns(some, 'present', least),
            used,
            most: used ? Math.max(...used.map((v) => v ?? 0)) : 0,
            now: total(some, (row) => row.now),
            memory: total(some, (row) => row.memory),
            change: total(some, (row) => row.change ?? null),
            cover: least(some, (row) => row.cover),
            group: true,
        };
    });
}
