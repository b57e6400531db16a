//go:build !unix

package peer

// descriptors returns no limit: the system has none.
func descriptors() (limit uint64, ok bool) { return 0, false }
