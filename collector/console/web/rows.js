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
    return (
        BY[word] || {
            by: word,
            draw: word === 'cpu_time' ? 'cpu_percent' : word,
            title: word.replace(/_/g, ' '),
            rates: /_bytes$|_operations$|faults$|switches$|_time$|cycles$/.test(word) && !/private|virtual/.test(word),
        }
    );
}

function labelOf(group, info, host) {
    if (group === 'image') return info?.name || NAMELESS;
    if (group === 'user') return info?.user ?? '–';
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
