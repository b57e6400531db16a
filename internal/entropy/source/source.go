// Package source holds the type behind entropy.Source. By the import rules only entropy (the
// operating system's randomness) and internal/entropy/simulated (repeatable streams) make one.
package source

import (
	"errors"
	"io"
)

// Source opens named streams of random bytes. The zero Source has none.
type Source struct {
	open func(label string, n uint64) io.Reader
}

// New makes a Source of a function that opens streams.
func New(open func(label string, n uint64) io.Reader) Source { return Source{open: open} }

// Stream opens the n-th stream named label.
//
// A stream of the system's source is fresh each time it is opened. A stream of a simulated source
// repeats if label and n repeat, so callers must use every (label, n) for one purpose only. Keep
// secrets that must be drawn again later as a seed (entropy.NewSeed); never open the same stream
// twice for them.
func (s Source) Stream(label string, n uint64) io.Reader {
	if s.open == nil {
		return empty{}
	}
	return s.open(label, n)
}

// empty fails every read: a forgotten Source must not become a predictable one.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, ErrNone }

// ErrNone is returned by reads from a stream of the zero Source.
var ErrNone = errors.New("entropy: no source of randomness was given (use entropy.System)")
