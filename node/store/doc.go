// Package store is what parties of a deployment keep on disk.
//
// A [Log] is an append-only list of entries, each append durable before it
// returns: [OpenLog] on bbolt, [NewMemoryLog] for tests. On it stand a client's
// [Ledger], which must never forget what was spent, and admission.Registry. The
// server's state is a file that is replaced as a whole ([SaveCheckpoint]), with
// the one before it kept beside it.
//
// A log is made once ([CreateLog]) and opened from then on. Opening never makes
// one: a ledger that is missing is an error, since an empty one in its place
// would give the budget back. What a log cannot notice is a copy of the whole file
// from earlier times (never restore one from a backup), and a disk that reported
// its very last write as done and lost it.
package store
