import type { Attribute, AttributeName } from '../../../model/attributes.ts';
import type { AnyOperation } from '../../../operations/catalogue/perform.ts';

/** What the page knows of an operation that changes a key or a customer. */
export interface OperationWords
  extends Required<Pick<AnyOperation, 'line' | 'role' | 'action'>>,
    Pick<AnyOperation, 'isFinal' | 'endsBan'> {
  /** What becomes of the key or the customer, in plain sentences. */
  readonly effect: string;
  readonly needsInput?: true;
}

/** What the page knows of an attribute of keys and customers. */
export interface AttributeWords extends Pick<Attribute, 'label' | 'hint' | 'form' | 'max'> {
  readonly name: AttributeName;
  readonly isOfKeysAlone: boolean;
  readonly isFilter: boolean;
  readonly hasColumn: boolean;
}
