import fc from 'fast-check';

// Nobody reads the smallest counterexample to a planted mistake, and to find it takes longer than all else.
fc.configureGlobal({ endOnFailure: true });
