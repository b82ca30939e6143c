// Server-sent events, in pieces of any size.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parser } from '../../collector/console/web/stream.js';

const TEXT =
    ': hello\n\nevent: gap\ndata: {"lost":31}\n\nevent: update\nid: ab12\ndata: {"a":\r\ndata: 1}\r\n\r\nid: x\n\n' +
    'event: end\ndata: {"code":"X","message":"é: \\n"}\n\n';

test('events are the same however they are cut', () => {
    const expected = [
        ['gap', '', '{"lost":31}'],
        ['update', 'ab12', '{"a":\n1}'],
        ['end', '', '{"code":"X","message":"é: \\n"}'],
    ];
    for (let n = 1; n <= TEXT.length; n++) {
        const seen = [];
        const feed = parser((...event) => seen.push(event));
        for (let i = 0; i < TEXT.length; i += n) feed(TEXT.slice(i, i + n));
        assert.deepEqual(seen, expected, `pieces of ${n}`);
    }
});

test('an event that is cut off is none', () => {
    const seen = [];
    parser((...event) => seen.push(event))('event: update\ndata: {}\n');
    assert.deepEqual(seen, []);
});
