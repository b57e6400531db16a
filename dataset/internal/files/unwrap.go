package files

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/fedsim/fedsim/dataset"
)

const (
	HeadSize     = 64 << 10 // bytes at the beginning of a file that say what it is
	ParquetMagic = "PAR1"   // what a Parquet file begins with: it is read as it is
	mostLayer    = 4        // compressions around one another
	freeSize     = 64 << 20 // unpacked bytes before maxRatio counts
)

// compression is a way to pack a file, known by its first bytes.
type compression struct {
	name, magic string
	open        func(io.Reader) (io.Reader, error)
}

var compressions = []compression{
	{"gzip", "\x1f\x8b\x08", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"bzip2", "BZh91AY&SY", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"xz", "\xfd7zXZ\x00", openXZ},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}},
}

// foreign are kinds of files that are not read, with what to do about them.
var foreign = []struct{ magic, what, remedy string }{
	{"PK\x03\x04", "a zip archive inside a pipe or another archive", "unpack it and name the file"},
	{"ARROW1", "an Arrow or Feather file", toCSV("read_feather")},
	{"\x89HDF", "an HDF5 file", toCSV("read_hdf")},
	{"\x80\x04\x95", "a pickle of Python", toCSV("read_pickle")},
	{"\x80\x05\x95", "a pickle of Python", toCSV("read_pickle")},
	{"\xd0\xcf\x11\xe0", "an Excel file", "save it as CSV"},
	{"SQLite format 3", "an SQLite database", `convert it: sqlite3 -header -csv FILE "select user, item, rating from TABLE" > ratings.csv`},
	{"Obj\x01", "an Avro file", "convert it to Parquet or CSV"},
	{"ORC", "an ORC file", "convert it to Parquet or CSV"},
	{"\x93NUMPY", "an array of NumPy", "convert it: python -c \"import numpy; numpy.savetxt('ratings.csv', numpy.load('FILE'), delimiter=',', fmt='%g')\""},
	{"MATLAB 5.0 MAT-file", "a MATLAB file", "write its matrix as rows of user, item and rating"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it and name the file"},
	{"Rar!", "a RAR archive", "unpack it and name the file"},
	{"\x04\x22\x4d\x18", "an LZ4 file", "unpack it: lz4 -d FILE"},
	{"version https://git-lfs", "a pointer of Git LFS and not the data", "fetch the data: git lfs pull"},
	{"%PDF", "a PDF file", "export its table as CSV"},
	{"\xff\xfe\x00\x00", "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > ratings.csv"},
	{"\x00\x00\xfe\xff", "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > ratings.csv"},
	{"<!DOCTYPE", "a web page and not the data", "download the data again"},
	{"<html", "a web page and not the data", "download the data again"},
}

func toCSV(function string) string {
	return fmt.Sprintf(`convert it: python -c "import pandas; pandas.%s('FILE').to_csv('ratings.csv', index=False)"`, function)
}

// head returns the beginning of a file. A file on disk is not consumed; what else is read stands before the rest.
func (in *Input) head(ctx context.Context) []byte {
	buf := make([]byte, HeadSize)
	if whole, ok := in.ReadCloser.(io.ReaderAt); ok {
		if n, err := whole.ReadAt(buf, 0); err == nil || errors.Is(err, io.EOF) {
			return buf[:n]
		}
	}
	n := 0
	var err error
	for n < len(buf) && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var got int
		got, err = in.Read(buf[n:])
		n += got
	}
	rest := io.Reader(in.ReadCloser)
	if err != nil {
		rest = failing{err}
	}
	in.ReadCloser = joined{io.MultiReader(bytes.NewReader(buf[:n]), rest), in.ReadCloser}
	return buf[:n]
}

// failing is a reader that ended with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// joined reads from one and closes another.
type joined struct {
	io.Reader
	io.Closer
}

// Unwrap takes a file out of what it is packed in. Text is then UTF-8 with lines that end in LF.
func (in *Input) Unwrap(ctx context.Context, o Options) (found []dataset.Finding, err error) {
	head := in.head(ctx)
	for range mostLayer {
		c, packed := compressionOf(head)
		if !packed {
			break
		}
		if err = in.unpack(c); err != nil {
			return found, err
		}
		found = append(found, dataset.Finding{What: "compression", Found: c.name, Sure: dataset.Certain, Why: "by its first bytes"})
		head = in.head(ctx)
	}
	if isTar(head) {
		name, failed := in.openTar(ctx, o)
		if failed != nil {
			return found, failed
		}
		found = append(found, dataset.Finding{What: "member of tar archive", Found: name, Sure: sureIf(o.Member != "")})
		head = in.head(ctx)
	}
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return found, fmt.Errorf("it is %s, which is not read; %s", f.what, f.remedy)
		}
	}
	if bytes.HasPrefix(head, []byte(ParquetMagic)) {
		return found, nil
	}
	text, err := in.decode(ctx, head, o)
	return append(found, text...), err
}

func sureIf(stated bool) dataset.Sureness {
	if stated {
		return dataset.Stated
	}
	return dataset.Certain
}

func compressionOf(head []byte) (compression, bool) {
	for _, c := range compressions {
		if bytes.HasPrefix(head, []byte(c.magic)) || c.name == "bzip2" && isBzip2(head) {
			return c, true
		}
	}
	return compression{}, false
}

// isBzip2 takes any size of blocks.
func isBzip2(head []byte) bool {
	return len(head) > 10 && string(head[:3]) == "BZh" && head[3] >= '1' && head[3] <= '9' && string(head[4:10]) == "1AY&SY"
}

// unpack puts the unpacked content in place of a packed file. Progress is counted in packed bytes from then on.
func (in *Input) unpack(c compression) error {
	packed := &packedBytes{Reader: in.ReadCloser, progress: in.Progress}
	r, err := c.open(packed)
	if err != nil {
		return fmt.Errorf("it begins like %s, but cannot be unpacked: %w", c.name, err)
	}
	in.ReadCloser = joined{&unpackedBytes{Reader: r, name: c.name, packed: packed}, in.ReadCloser}
	in.Progress, in.Size = nil, 0
	return nil
}

// packedBytes counts what is read of a packed file.
type packedBytes struct {
	io.Reader
	n        int64
	progress func(int64)
}

func (p *packedBytes) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.n += int64(n)
	if p.progress != nil {
		p.progress(p.n)
	}
	return n, err
}

// unpackedBytes refuses what unpacks to more than a file of ratings would.
type unpackedBytes struct {
	io.Reader
	name   string
	n      int64
	packed *packedBytes
}

func (u *unpackedBytes) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	u.n += int64(n)
	if u.n > maxUnpacked || u.n > freeSize && u.n/maxRatio > u.packed.n {
		return 0, fmt.Errorf("unpacks from %d bytes to more than %d, beyond %d or %d times; if it is to be trusted, unpack it and name the file",
			u.packed.n, u.n, int64(maxUnpacked), maxRatio)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("it begins like %s, but cannot be unpacked: %w", u.name, err)
	}
	return n, err
}

// UnpackedName is the name of a file without the ending that a compression adds.
func UnpackedName(name string) string {
	for _, end := range []string{".gz", ".bz2", ".xz", ".zst"} {
		if short := len(name) - len(end); short > 0 && strings.EqualFold(name[short:], end) {
			return name[:short]
		}
	}
	return name
}
