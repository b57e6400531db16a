//go:build !linux

package store

import "os"

// reserve gives a file its size. The disk may still be too small for it, and a write may then fail later.
func reserve(f *os.File, bytes int64) error { return f.Truncate(bytes) }
