// Package store keeps the durable state of a deployment's parties on disk.
//
// A [Log] is an append-only list of entries; an append is durable before it returns. [OpenLog] is a file, [NewMemoryLog] is for
// tests. Two things are built on it: a client's [Ledger], which must never forget what was spent, and admission.Registry. The
// server's state is a file that is replaced as a whole ([SaveCheckpoint]), with the previous one kept beside it.
//
// A log is created once ([CreateLog]) and only opened from then on. Opening never creates one: a missing ledger is an error, since
// an empty one in its place would give the budget back. A log cannot detect that the whole file was replaced by an older copy, so
// never restore one from a backup. Nor can it detect that a disk lost the very last write after reporting it as done.
package store
