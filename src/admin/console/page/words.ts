import type { Attribute, AttributeName } from '../../../model/attributes.ts';
import type { AnyOperation } from '../../../operations/catalogue/perform.ts';

/** What the page knows of an operation that changes something. */
export interface OperationWords
  extends Required<Pick<AnyOperation, 'line' | 'role' | 'action'>>,
    Pick<AnyOperation, 'isFinal' | 'endsBan' | 'once' | 'isVersioned'> {
  /** What becomes of the key or the customer, in plain sentences. */
  readonly effect?: string;
  /** The members of its input, in their order. */
  readonly fields: readonly FieldWords[];
}

/** A member of an input, as the field of a form. */
export interface FieldWords {
  readonly name: string;
  readonly form: FieldForm;
  /** It cannot be left out. */
  readonly isRequired?: true;
  /** The greatest number of characters of a text. */
  readonly max?: number;
  /** What a checked box means, if that is not true. */
  readonly value?: string;
}

/** `several`: some of what is offered. `limits`: a number for each window. Others are as an attribute is written, or as they are called. */
export type FieldForm = Attribute['form'] | 'plan' | 'customer' | 'moment' | 'limits' | 'several' | 'number' | 'flag';

/** What the page knows of an attribute of keys and customers. */
export interface AttributeWords extends Pick<Attribute, 'label' | 'hint' | 'form'> {
  readonly name: AttributeName;
  readonly isFilter: boolean;
  readonly hasColumn: boolean;
}
