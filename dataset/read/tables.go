package read

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/dataset/internal/files"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// Table reads a table whose first line names its columns. It may be packed, encoded and separated in any way that [Open]
// knows. Some columns have the given names: they show the separator. The function open gets the header and returns
// what takes each row; a row is valid until the following one. Errors in the content are [*dataset.FileError].
func Table(ctx context.Context, path string, names []string, open func(header []string) (take func(row [][]byte) error, err error)) error {
	f, _, err := files.DiskFolder("").Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	in := files.Input{ReadCloser: f, Path: path}
	if _, err = in.Unwrap(ctx, files.Options{}); err != nil {
		return records.FirstLine{}.Locate(path, err)
	}
	s, header, err := records.OpenTable(ctx, in, names, records.Commas)
	if err != nil {
		return s.Locate(path, err)
	}
	list := make([]string, len(header))
	for i, name := range header {
		list[i] = string(name)
	}
	take, err := open(list)
	for err == nil {
		var row [][]byte
		if row, err = s.Next(); err == nil && len(row) != len(header) {
			err = fmt.Errorf("%d fields, want %d as in the header", len(row), len(header))
		}
		if err == nil {
			err = take(row)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return s.Locate(path, err)
}
