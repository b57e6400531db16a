package files

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/fedsim/fedsim/dataset"
)

const (
	HeadSize     = 64 << 10 // bytes at the beginning of a file that say what it is
	ParquetMagic = "PAR1"   // what a Parquet file begins with: it is read as it is
	mostLayer    = 4        // compressions around one another
	freeSize     = 64 << 20 // unpacked bytes before maxRatio counts
)

// compression is a way to pack a file, known by its first bytes; ? is any byte.
type compression struct {
	name, magic string
	open        func(io.Reader) (io.Reader, error)
}

var compressions = []compression{
	{"gzip", "\x1f\x8b\x08", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"bzip2", "BZh?1AY&SY", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
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
	{"\x5d\x00\x00", "an LZMA file", "unpack it: xz -d --format=lzma FILE"},
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

// head returns the beginning of a file until the next read. A file on disk is not consumed; what else is read stands before the rest.
func (in *Input) head() []byte {
	if whole, ok := in.ReadCloser.(io.ReaderAt); ok {
		buf := make([]byte, HeadSize)
		if n, err := whole.ReadAt(buf, 0); err == nil || errors.Is(err, io.EOF) {
			return buf[:n]
		}
	}
	b := bufio.NewReaderSize(in.ReadCloser, HeadSize)
	head, _ := b.Peek(HeadSize) // an error comes again behind these bytes
	in.ReadCloser = joined{b, in.ReadCloser}
	return head
}

// joined reads from one and closes another.
type joined struct {
	io.Reader
	io.Closer
}

// Unwrap takes a file out of what it is packed in. Text is then UTF-8 with lines that end in LF.
func (in *Input) Unwrap(ctx context.Context, o Options) (found []dataset.Finding, err error) {
	head := in.head()
	for range mostLayer {
		at := slices.IndexFunc(compressions, func(c compression) bool {
			begin, end, _ := strings.Cut(c.magic, "?")
			return bytes.HasPrefix(head, []byte(begin)) && (end == "" || bytes.HasPrefix(head[min(len(begin)+1, len(head)):], []byte(end)))
		})
		if at < 0 {
			break
		}
		c := compressions[at]
		if err = in.unpack(c); err != nil {
			return found, err
		}
		found = append(found, dataset.Finding{What: "compression", Found: c.name, Sure: dataset.Certain, Why: "by its first bytes"})
		head = in.head()
	}
	if bytes.HasPrefix(head[min(257, len(head)):], []byte("ustar")) { // where a tar archive has it
		name, failed := in.openTar(ctx, o)
		if failed != nil {
			return found, failed
		}
		found = append(found, dataset.Finding{What: "member of tar archive", Found: name, Sure: dataset.SureIf(o.Member != "")})
		head = in.head()
	}
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return found, fmt.Errorf("it is %s, which is not read; %s", f.what, f.remedy)
		}
	}
	if bytes.HasPrefix(head, []byte(ParquetMagic)) {
		return found, nil
	}
	text, err := in.decode(head, o)
	return append(found, text...), err
}

// unpack puts the unpacked content in place of a packed file. Progress is counted in packed bytes from then on.
func (in *Input) unpack(c compression) error {
	var packed, unpacked int64
	source, progress := in.ReadCloser, in.Progress
	broken := func(err error) error {
		return fmt.Errorf("it begins like %s, but cannot be unpacked: %w; if it is whole, unpack it with its own program and name what that leaves", c.name, err)
	}
	r, err := c.open(reader(func(b []byte) (int, error) {
		n, err := source.Read(b)
		packed += int64(n)
		if progress != nil {
			progress(packed)
		}
		return n, err
	}))
	if err != nil {
		return broken(err)
	}
	in.Progress = nil
	var failed error // stays: who looks ahead forgets it, and xz then reads on behind what is wrong
	in.filter(reader(func(b []byte) (n int, err error) {
		if failed != nil {
			return 0, failed
		}
		n, failed = r.Read(b)
		unpacked += int64(n)
		switch {
		case unpacked > maxUnpacked || unpacked > freeSize && unpacked/maxRatio > packed:
			n, failed = 0, fmt.Errorf("unpacks from %d bytes to more than %d, beyond %d or %d times; if it is to be trusted, unpack it and name the file",
				packed, unpacked, int64(maxUnpacked), maxRatio)
		case failed != nil && !errors.Is(failed, io.EOF):
			failed = broken(failed)
		}
		return n, failed
	}))
	return nil
}

// reader is a function that reads.
type reader func(b []byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// UnpackedName is the name of a file without the ending that a compression adds.
func UnpackedName(name string) string {
	for _, end := range []string{".gz", ".bz2", ".xz", ".zst"} {
		if short := len(name) - len(end); short > 0 && strings.EqualFold(name[short:], end) {
			return name[:short]
		}
	}
	return name
}

var ByteOrderMark = []byte("\xef\xbb\xbf")

// CheckEncoding checks the name of an encoding, such as utf-8, utf-16, latin1, windows-1251, gbk or shift_jis. "" is none.
func CheckEncoding(name string) error {
	if name == "" {
		return nil
	}
	_, err := encodingOf(name)
	return err
}

func encodingOf(name string) (encoding.Encoding, error) {
	switch strings.ToLower(name) {
	case "utf-16", "utf16":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), nil
	case "latin-1":
		name = "latin1"
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no encoding that is known; want one such as utf-8, utf-16, latin1, windows-1251, gbk or shift_jis", name)
	}
	return e, nil
}

// decode makes UTF-8 with LF of a text, by its beginning. Plain UTF-8 with line feeds is left as it is.
func (in *Input) decode(head []byte, o Options) ([]dataset.Finding, error) {
	e, found, err := sniffEncoding(head, o.Encoding)
	if err != nil {
		return nil, err
	}
	if e != nil {
		in.filter(e.NewDecoder().Reader(in.ReadCloser))
		head = in.head()
	}
	list := []dataset.Finding{found}
	text := bytes.TrimPrefix(head, ByteOrderMark)
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(text, '\r') < len(text)-1 {
		source := in.ReadCloser
		in.filter(reader(func(b []byte) (int, error) {
			n, err := source.Read(b)
			copy(b, bytes.ReplaceAll(b[:n], []byte{'\r'}, []byte{'\n'}))
			return n, err
		}))
		list = append(list, dataset.Finding{What: "line ends", Found: "carriage returns", Sure: dataset.Certain, Why: "there are no line feeds"})
	}
	return list, nil
}

// filter reads a file through another reader.
func (in *Input) filter(r io.Reader) {
	in.ReadCloser, in.Size = joined{r, in.ReadCloser}, 0
}

// sniffEncoding finds the encoding of a text. It is nil of UTF-8.
func sniffEncoding(head []byte, stated string) (encoding.Encoding, dataset.Finding, error) {
	found := dataset.Finding{What: "encoding", Found: "UTF-8", Sure: dataset.Certain}
	if stated != "" {
		e, err := encodingOf(stated)
		found.Found, found.Sure = stated, dataset.Stated
		if err == nil && strings.EqualFold(strings.ReplaceAll(stated, "-", ""), "utf8") {
			e = nil
		}
		return e, found, err
	}
	switch {
	case bytes.HasPrefix(head, ByteOrderMark):
		found.Why = "by its byte order mark"
		return nil, found, nil
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		found.Found, found.Why = "UTF-16", "by its byte order mark"
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), found, nil
	}
	if big, is := zeroBytes(head); is {
		found.Found, found.Sure, found.Why = "UTF-16", dataset.Likely, "every second byte is 0"
		end := unicode.LittleEndian
		if big {
			end = unicode.BigEndian
		}
		return unicode.UTF16(end, unicode.IgnoreBOM), found, nil
	}
	if several, odd := countUTF8(head); odd > several {
		found.Found, found.Sure, found.Why = "Windows-1252", dataset.Likely, fmt.Sprintf("%d bytes are not UTF-8; --encoding names another", odd)
		return charmap.Windows1252, found, nil
	}
	return nil, found, nil
}

// zeroBytes reports whether the bytes in odd places, or with big those in even ones, are mostly 0, as of English text in UTF-16.
func zeroBytes(head []byte) (big, is bool) {
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(head) / 2
	if half < 4 {
		return false, false
	}
	return zeros[0] > zeros[1], max(zeros[0], zeros[1]) > half*3/4 && min(zeros[0], zeros[1]) < half/4
}

// countUTF8 counts characters of several bytes, and bytes that belong to none. A character that the end cuts does not count.
func countUTF8(head []byte) (several, odd int) {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && size == 1:
			if !utf8.FullRune(head) {
				return several, odd
			}
			odd++
		case size > 1:
			several++
		}
		head = head[size:]
	}
	return several, odd
}

// mostDictionary limits the dictionary of an xz file, which unpacking keeps in memory. xz -9 has 64 MiB.
const mostDictionary = 128 << 20

// openXZ unpacks an xz file whose first block has a dictionary of at most mostDictionary bytes.
func openXZ(r io.Reader) (io.Reader, error) {
	const header, block = 12, 1024 // bytes of the header of a stream, and of the longest header of a block
	b := bufio.NewReaderSize(r, header+block)
	head, err := b.Peek(header + block)
	if len(head) <= header {
		return nil, err
	}
	if size := xzDictionary(head[header:]); size > mostDictionary {
		return nil, fmt.Errorf("its dictionary has %d MiB, and at most %d MiB are used; pack it again: xz -dc FILE | xz -9 > NEW.xz", size>>20, mostDictionary>>20)
	}
	return xz.NewReader(b)
}

// xzDictionary returns the size of the dictionary by the header of a block, as section 5.3.1 of the format of xz
// has it; 0 if there is none.
func xzDictionary(block []byte) uint64 {
	const flagPacked, flagUnpacked, lzma2 = 0x40, 0x80, 0x21
	if len(block) < 2 || block[0] == 0 {
		return 0
	}
	flags, rest := block[1], block[2:min(len(block), 4*(int(block[0])+1))]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		rest = rest[max(n, 0):]
		return v
	}
	for _, flag := range []byte{flagPacked, flagUnpacked} {
		if flags&flag != 0 {
			next()
		}
	}
	for range flags&3 + 1 {
		id, size := next(), next()
		if size > uint64(len(rest)) {
			return 0
		}
		if id == lzma2 && size == 1 {
			bits := rest[0] & 0x3f
			return uint64(2|bits&1) << (bits/2 + 11)
		}
		rest = rest[size:]
	}
	return 0
}
