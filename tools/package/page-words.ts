import type { AttributeWords, OperationWords } from '../../src/admin/console/page/words.ts';
import { ATTRIBUTES, type Attribute, type AttributeName, SEARCHED } from '../../src/model/attributes.ts';
import { OPERATIONS } from '../../src/operations/catalogue/all.ts';
import { isOptional } from '../../src/operations/catalogue/input.ts';
import { effectOf } from '../../src/operations/catalogue/operation.ts';
import { RECORDED_ACTIONS } from '../../src/operations/catalogue/recorded-operations.ts';

/** What the page knows of the operations and the attributes, by the module that exports it; `page/NAME.d.ts` declares each. */
export const PAGE_WORDS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  operations: { OPERATIONS: operationWords() },
  actions: { ACTIONS: RECORDED_ACTIONS },
  attributes: { ATTRIBUTES: attributeWords(), SEARCHED: searchedText() },
};

function operationWords(): readonly OperationWords[] {
  return OPERATIONS.flatMap((operation): OperationWords[] => {
    const { line, role, action, isFinal, endsBan, input } = operation;
    const effect = effectOf(operation);
    if (action === undefined || effect === undefined) return [];
    return [
      {
        ...{ line, role, action, effect },
        ...(isFinal === true ? { isFinal } : {}),
        ...(endsBan === true ? { endsBan } : {}),
        ...(input === undefined || isOptional(input) ? {} : { needsInput: true }),
      },
    ];
  });
}

function searchedText(): string {
  const [first, ...rest] = SEARCHED.map((name) => ATTRIBUTES[name].label);
  return [first, ...rest.map((label) => label.toLowerCase())].join(', ');
}

function attributeWords(): readonly AttributeWords[] {
  return Object.entries<Attribute>(ATTRIBUTES).map(
    ([name, { label, hint, form, max, ofKeysAlone, isFilter, rank }]) => ({
      name: name as AttributeName,
      label,
      ...(hint === undefined ? {} : { hint }),
      form,
      max,
      isOfKeysAlone: ofKeysAlone === true,
      isFilter: isFilter === true,
      hasColumn: rank !== undefined,
    }),
  );
}
