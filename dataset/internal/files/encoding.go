package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/fedsim/fedsim/dataset"
)

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
func (in *Input) decode(ctx context.Context, head []byte, o Options) ([]dataset.Finding, error) {
	e, found, err := sniffEncoding(head, o.Encoding)
	if err != nil {
		return nil, err
	}
	if e != nil {
		in.filter(e.NewDecoder().Reader(in.ReadCloser))
		head = in.head(ctx)
	}
	list := []dataset.Finding{found}
	text := bytes.TrimPrefix(head, ByteOrderMark)
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(text, '\r') < len(text)-1 {
		in.filter(&returns{in.ReadCloser})
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

// returns reads text whose lines end in CR alone.
type returns struct{ io.Reader }

func (r *returns) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	for i, c := range b[:n] {
		if c == '\r' {
			b[i] = '\n'
		}
	}
	return n, err
}
