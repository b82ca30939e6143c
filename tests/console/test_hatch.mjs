/* What did not arrive, and what was never there. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { holes, lossRuns, nearest } from '../../collector/console/web/hatch.js';

const NS = 1000000n;
const series = (...present) => ({ t0_ms: 1000, step_ns: '1000000000', n: present.length, present });
const host = (first, more) => ({ first_ns: String(BigInt(first) * NS), last_ns: '0', connected: true, ...more });

test('what lies in front of the first data was not lost', () => {
    assert.deepEqual(lossRuns(series(0, 600000, 1000000), [host(2400)]), []);
    assert.equal(lossRuns(series(0, 500000, 1000000), [host(2400)])[0].from, 2000);
    assert.equal(lossRuns(series(1000000, 0), [host(500)]).length, 1);
});

test('a host that came later, or has ended, makes no loss of the others', () => {
    assert.deepEqual(lossRuns(series(500000, 750000, 1000000), [host(0), host(2500)]), []);
    const ended = host(1500, { ended: true, connected: false, last_ns: String(1800n * NS) });
    assert.deepEqual(lossRuns(series(1000000, 1000000), [ended]), []);
    assert.equal(lossRuns(series(1000000, 900000), [ended, host(0)])[0].from, 2000);
});

test('the data nearest to a range without is found, and is no longer than the range', () => {
    const hosts = [host(5000, { last_ns: String(9000n * NS) }), host(100, { last_ns: String(200n * NS) })];
    assert.deepEqual(nearest(hosts, 1000, 2000), { from: 100, to: 201 });
    assert.deepEqual(nearest(hosts, 4000, 4500), { from: 5000, to: 5500 });
    assert.deepEqual(nearest(hosts.slice(0, 1), 20000, 21000), { from: 8001, to: 9001 });
    assert.equal(nearest(hosts, 4000, 6000), null);
    assert.equal(nearest([], 0, 1), null);
});

test('where no agent ran and nothing was lost is not measured, between two samples is not', () => {
    const within = (hosts_in, step_ns) =>
        holes({ t0_ms: 0, step_ns, n: 9, present: Array(9).fill(1000000), hosts_in }, [host(0)]).within;
    const ran = within([1, 0, 0, 0, 1, 0, 1, 1, 1], '2000000000');
    assert.deepEqual(ran, [{ from: 2000, until: 8000, text: 'not measured' }]);
    assert.deepEqual(within([1, 0, 0, 0, 1, 0, 1, 1, 1], '1000000000'), []);
    assert.deepEqual(within(undefined, '2000000000'), []);
});
