import { describe, expect, test } from 'vitest';
import { QueryNames } from '../../src/http1/query-names.ts';

// Attack: `limit` is checked, and a service reads another spelling of it as `limit`.

describe('a parameter is another spelling of limit', () => {
  const names = new QueryNames(['limit', 'max']);
  test.each([
    'Limit=1',
    'LIMIT',
    'limit[]=1',
    'limit[0]=1',
    'limit[$gt]=1',
    'limit[a][b]=1',
    'limit.=1',
    'limit()=1',
    '[limit]=1',
    '+limit=1',
    '%20limit=1',
    'limit+=1',
    '?limit=1',
    '!limit=1',
    '%00limit=1',
    'limit%00x=1',
    'li%01mit=1',
    'l%u0069mit=1',
    'limit%ff=1',
    '%EF%BD%8Cimit=1',
    'a=1;limit=2',
    'a=1;b;Limit=2',
    'max;Limit=2',
    `limit%00${'x'.repeat(2_000)}=1`,
    `limit[${'x'.repeat(2_000)}=1`,
  ])('%s', (parameter) => {
    expect(names.misspelt(parameter)).toBe('limit');
  });
});

test.each([
  'limit=1',
  'limit',
  'max=Limit',
  'limits=1',
  'a=limit',
  'xlimit=1',
  'x[limit]=1',
  '0limit=1',
  'l%2Dimit=1',
  'a=1;b=2',
  'x%=1',
  '',
])('%s is the name itself or another one', (parameter) => {
  expect(new QueryNames(['limit', 'max']).misspelt(parameter)).toBeNull();
});

test.each([
  ['filter.name=1', 'filter[name]'],
  ['filter[name][]=1', 'filter[name]'],
  ['Filter[name]=1', 'filter[name]'],
  ['filter[name=1', 'filter[name]'],
  ['filter[other]=1', null],
  ['page_size=1', null],
  ['page.size=1', 'page_size'],
  ['page size=1', 'page_size'],
  ['page+size=1', 'page_size'],
  ['page[size=1', 'page_size'],
  ['page.size[]=1', 'page_size'],
  ['page.size+=1', 'page_size'],
])('of filter[name] and page_size %s is read as %s', (parameter, name) => {
  expect(new QueryNames(['filter[name]', 'page_size']).misspelt(parameter)).toBe(name);
});

test('names that are said to be others are no other spelling, unless a part of them is a name itself', () => {
  const names = new QueryNames(['limit', 'filter[name]'], ['Limit', 'limit[max]', 'filter']);
  expect(names.misspelt('Limit=1')).toBeNull();
  expect(names.misspelt('Limit[a]=1')).toBeNull();
  expect(names.misspelt('limit[max]=1')).toBeNull();
  expect(names.misspelt('limit[max][x]=1')).toBeNull();
  expect(names.misspelt('limit[min]=1')).toBe('limit');
  expect(names.misspelt('filter.name=1')).toBe('filter[name]');
  expect(names.misspelt('filter[name][x]=1')).toBe('filter[name]');
});

test('a name in an encoding that only lenient services read is another spelling of itself', () => {
  const names = new QueryNames(['limit']);
  expect(names.misspelt('%6cimit=%ff')).toBeNull();
  expect(names.misspelt('%u006cimit=1')).toBe('limit');
  expect(names.misspelt('%U006Cimit=1')).toBe('limit');
  expect(names.misspelt('limi%74%ff=1')).toBe('limit');
});
