import { z } from 'zod';
import type { AttributeWords, FieldForm, FieldWords, OperationWords } from '../../src/admin/console/page/words.ts';
import { ATTRIBUTES, type Attribute, type AttributeName, SEARCHED } from '../../src/model/attributes.ts';
import { editedLimits, limits } from '../../src/model/plan.ts';
import { OPERATIONS } from '../../src/operations/catalogue/all.ts';
import { choicesOf, kindOf, layersOf, membersOf } from '../../src/operations/catalogue/input.ts';
import { effectOf } from '../../src/operations/catalogue/operation.ts';
import { customerId, moment, plan } from '../../src/operations/catalogue/record-operations.ts';
import { RECORDED_ACTIONS } from '../../src/operations/catalogue/recorded-operations.ts';

/** By the schema of the values. */
const FORMS: ReadonlyMap<z.ZodType, FieldForm> = new Map<z.ZodType, FieldForm>([
  [plan, 'plan'],
  [customerId, 'customer'],
  [moment, 'moment'],
  [limits, 'limits'],
  [editedLimits, 'limits'],
]);

const FORMS_OF_KINDS: Readonly<Record<string, FieldForm>> = {
  array: 'several',
  number: 'number',
  boolean: 'flag',
  literal: 'flag',
  string: 'line',
  union: 'line',
};

/** What the page knows of the operations and the attributes, by the module that exports it; `page/NAME.d.ts` declares each. */
export const PAGE_WORDS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  operations: { OPERATIONS: operationWords() },
  actions: { ACTIONS: RECORDED_ACTIONS },
  attributes: { ATTRIBUTES: attributeWords(), SEARCHED: searchedText() },
};

/** Those that change something, except by files. */
function operationWords(): readonly OperationWords[] {
  return OPERATIONS.flatMap((operation): OperationWords[] => {
    const { line, role, action, isFinal, endsBan, once, isVersioned } = operation;
    const effect = effectOf(operation);
    const fields = Object.entries(membersOf(operation.input)).map(([name, type]) => fieldOf(name, type));
    if (action === undefined || (effect === undefined && fields.length === 0) || fields.includes(null)) return [];
    return [
      {
        ...{ line, role, action, fields: fields as FieldWords[] },
        ...(effect !== undefined && { effect }),
        ...(isFinal && { isFinal }),
        ...(endsBan && { endsBan }),
        ...(once && { once }),
        ...(isVersioned && { isVersioned }),
      },
    ];
  });
}

/** @returns null if a form has no field for such values */
function fieldOf(name: string, type: z.ZodType): FieldWords | null {
  const layers = layersOf(type);
  const inner = layers.at(-1);
  if (inner instanceof z.ZodArray && kindOf(inner.element as z.ZodType) === 'object') return null;
  const attribute: Attribute | undefined = ATTRIBUTES[name as AttributeName];
  const known = layers.map((layer) => FORMS.get(layer)).find((one) => one !== undefined);
  const form = known ?? attribute?.form ?? FORMS_OF_KINDS[kindOf(type) ?? ''];
  if (form === undefined) return null;
  const max = layers.map((layer) => layer.meta()?.maxLength).find((one) => typeof one === 'number');
  const [value] = choicesOf(type);
  return {
    ...{ name, form },
    ...(!type.safeParse(undefined).success && { isRequired: true as const }),
    ...(max !== undefined && { max }),
    ...(form === 'flag' && value !== undefined && { value }),
  };
}

function searchedText(): string {
  const [first, ...rest] = SEARCHED.map((name) => ATTRIBUTES[name].label);
  return [first, ...rest.map((label) => label.toLowerCase())].join(', ');
}

function attributeWords(): readonly AttributeWords[] {
  return Object.entries<Attribute>(ATTRIBUTES).map(([name, { label, hint, form, isFilter, rank }]) => ({
    name: name as AttributeName,
    label,
    ...(hint === undefined ? {} : { hint }),
    form,
    isFilter: isFilter === true,
    hasColumn: rank !== undefined,
  }));
}
