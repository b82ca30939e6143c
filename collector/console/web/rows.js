/* The tables of answers (`top`, `processes`, `history`, `tree`, `series`) as one object for each row.
 *
 *   rowsOf(answer) → [{i, host, info, name, pid, start, label, instances, hosts, depth, time_ms, v: {metric: number |
 *       null}}]
 *       host, info: as in the answer, or null; start: the raw creation time, a text, which is the process's identity
 *           with pid
 *   groupsOf(answer, metric, column = 'avg') → [{label, values}]    of a series; label null is what is left over
 *   processPath(row) → args of its link       sinceText(info) → '14:00:01'
 *   ask words: BY = {cpu: 'cpu_time', …}: what is ordered by and what of it is drawn */

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

export function rowsOf(answer) {
    const rows = answer.rows;
    if (!rows || Array.isArray(rows)) return rows || [];
    const metrics = Object.keys(rows.values || {});
    return Array.from({ length: rows.n }, (_, i) => {
        const info = answer.infos?.[rows.info?.[i]] || null;
        const v = {};
        for (const metric of metrics) v[metric] = rows.values[metric][i];
        return {
            i,
            info,
            host: answer.hosts?.[rows.host?.[i]] || null,
            name: info?.name ?? '',
            pid: info?.pid ?? null,
            start: info?.start ?? '',
            label: rows.label?.[i] ?? null,
            instances: rows.instances?.[i] ?? 1,
            hosts: rows.hosts?.[i] ?? 1,
            depth: rows.depth?.[i] ?? 0,
            time_ms: rows.time_ms?.[i] ?? null,
            v,
        };
    });
}

export function groupsOf(answer, metric, column = 'avg') {
    return answer.series.groups
        .map((g) => ({ label: g.label, values: g.columns[metric]?.[column] || [] }))
        .filter((g) => g.values.some((v) => v !== null));
}

export const processPath = (row) => [row.host.name, row.pid + '.' + row.start];
