package pack

import (
	"io"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// File has write fill a file, which must not be there yet (else the error wraps [fs.ErrExist]). The file appears when it is whole:
// before, and if anything fails, nothing is there but a hidden draft, which is removed.
func File(path string, write func(io.Writer) (Report, error)) (p Report, err error) {
	err = atomicfile.New(path, func(w io.Writer) (err error) {
		p, err = write(w)
		return err
	})
	return p, err
}
