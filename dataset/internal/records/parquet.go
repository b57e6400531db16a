package records

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/files"
)

// ParquetFile has the rows of a Parquet file.
type ParquetFile interface {
	Rows
	// Names returns the names of the columns.
	Names() []string
	// First returns the first value of each column as text, empty where it is no single value.
	First() ([][]byte, error)
	// Choose makes the given columns the fields of a record, and returns their places there.
	Choose(Columns) (Columns, error)
}

// Parquet opens a Parquet file of size bytes. It is nil in a program that does not import package dataset/parquet.
var Parquet func(ctx context.Context, r io.ReaderAt, size int64, progress func(int64)) (ParquetFile, error)

// openParquet recognizes a Parquet file by the names of its columns. Its end says where they
// are, so that it cannot come from a pipe or an archive.
func openParquet(s *Scanner, in files.Input, o Options) (RatingRows, error) {
	out := RatingRows{Rows: FirstLine{}}
	if Parquet == nil {
		return out, errors.New("a Parquet file: this program has no reader for it; import github.com/fedsim/fedsim/dataset/parquet, or convert the file to CSV")
	}
	whole, ok := in.ReadCloser.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return out, errors.New("a Parquet file cannot be read from an archive or a pipe; unpack it and name the file")
	}
	size, err := whole.Seek(0, io.SeekEnd)
	if err != nil {
		return out, errors.New("a Parquet file cannot be read from a pipe; save it and name the file")
	}
	file, err := Parquet(s.ctx, whole, size, in.Progress)
	if err != nil {
		return out, err
	}
	out.Rows = file
	var header [][]byte
	for _, name := range file.Names() {
		header = append(header, []byte(name))
	}
	if out.Format, out.Cols, err = parseHeader(header, o.Columns); errors.Is(err, errNoHeader) {
		err = fmt.Errorf("no column is called user or item; %s", WantColumns)
	}
	if err != nil {
		return out, err
	}
	out.note("format", "Parquet", dataset.Certain, "by its first bytes")
	out.noteColumns(header, dataset.Certain)
	out.noteFormat()
	first, err := file.First()
	if err != nil {
		return out, err
	}
	out.noteValues(header, [][][]byte{first})
	out.Cols, err = file.Choose(out.Cols)
	return out, err
}
