package read

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dataset/internal/records"
)

const (
	// pieceSize is of how much text a processor reads the lines at a time: it stays in the cache, and takes far longer than to
	// start a goroutine.
	pieceSize = 256 << 10
	// solo is the number of blocks that one processor reads alone after a line that was not plain:
	// lines that other processors read behind it were read in vain.
	solo = 8
	// maxMisses is after how many lines in a row that were not plain none is tried until the next block.
	maxMisses = 32
)

// plainReader reads the plain lines of a file, on all processors where the file is large. It shares the buffer of the scanner,
// which reads what is not plain.
type plainReader struct {
	*records.Plain
	table   *table
	scanner *records.Scanner
	size    int64 // of the file in bytes, 0 where it is unknown
	before  int64 // ratings that the table had before this file
	piece   int   // bytes for one processor
	workers int   // processors
	rows    []records.PlainRows
	solo    int64 // how far one processor reads the lines by itself, in bytes that were read of the file
	misses  int   // lines in a row that were not plain
	missed  int64 // how far the file was read at the last of them
}

// newPlainReader returns nil where no line of the file can be plain. The size is 0 where it is unknown.
func (t *table) newPlainReader(rows records.RatingRows, size int64, piece, workers int) *plainReader {
	s, isText := rows.Rows.(*records.Scanner)
	if !isText {
		return nil
	}
	form, ok := records.PlainOf(s.Dialect, rows.Cols, t.min, t.max, t.plainUnrated())
	if !ok {
		return nil
	}
	if size < 2*int64(piece) { // not worth others' while; and what is piped in, slowly perhaps, has no size
		workers = 1
	}
	return &plainReader{
		Plain: form, table: t, scanner: s, size: size, before: int64(t.ratings.Len()), piece: piece, workers: workers,
		rows: make([]records.PlainRows, workers),
	}
}

// read takes whole lines of the scanner's buffer, up to the first that is not plain.
func (p *plainReader) read() {
	if p == nil {
		return
	}
	s := p.scanner
	text, end := s.Block()
	if end == 0 || p.table.full(end/records.PlainShortest, s.Lines) {
		return
	}
	if p.misses >= maxMisses && s.BytesRead == p.missed {
		return
	}
	before, whole := p.table.ratings.Len(), false
	if p.workers > 1 && s.BytesRead > p.solo {
		whole = p.readPieces(text, end, max(1, min(p.workers, (end+p.piece/2)/p.piece)))
	} else {
		whole = p.take(&p.rows[0], p.Parse(text, end, &p.rows[0]), end)
	}
	if !whole {
		p.solo = s.BytesRead + solo*int64(p.workers*p.piece)
	}
	p.misses, p.missed = p.misses+1, s.BytesRead
	if p.table.ratings.Len() > before {
		p.misses = 0
	}
}

// readPieces takes lines of text[:end] in n pieces at a time, while more of the file is read. It reports whether all were plain.
func (p *plainReader) readPieces(text []byte, end, n int) bool {
	cuts := cutLines(text[:end], n)
	read := make([]int, n)
	var group sync.WaitGroup
	for i := 1; i < n; i++ {
		group.Go(func() { read[i] = p.Parse(text[cuts[i]:], cuts[i+1]-cuts[i], &p.rows[i]) })
	}
	group.Go(func() { p.scanner.ReadAhead(p.workers * p.piece) })
	read[0] = p.Parse(text, cuts[1], &p.rows[0])
	group.Wait()
	for i := range n {
		if whole := p.take(&p.rows[i], read[i], cuts[i+1]-cuts[i]); !whole {
			for later := i + 1; later < n; later++ { // its first line may be the middle of a record
				p.rows[later].Discard()
			}
			return false
		}
	}
	return true
}

// take appends rows that stood in so many bytes, and reports whether they are all there were.
func (p *plainReader) take(r *records.PlainRows, read, all int) bool {
	t, s := p.table, p.scanner
	if r.N > 0 { // else the line of the next rating would be said twice
		t.lines.add(t.ratings.Len(), s.Lines+1)
	}
	s.Advance(read, r.N)
	if cap(t.ratings.Value)-len(t.ratings.Value) < r.N {
		t.reserve(r.N + p.left())
	}
	t.ratings.User = append(t.ratings.User, r.User[:r.N]...)
	t.ratings.Item = append(t.ratings.Item, r.Item[:r.N]...)
	t.ratings.Value = append(t.ratings.Value, r.Value[:r.N]...)
	t.times = append(t.times, r.Time...)
	return read == all
}

// left estimates how many ratings are to come, by the bytes that one took so far.
func (p *plainReader) left() int {
	have, read := int64(p.table.ratings.Len())-p.before, p.scanner.Taken()
	if have <= 0 || read <= 0 {
		return 0
	}
	return int(float64(have) / float64(read) * float64(max(p.size-read, 0)))
}

// finish tells the table which ids there were.
func (p *plainReader) finish() {
	if p == nil {
		return
	}
	for i := range p.rows {
		p.table.users.Seen.Join(p.rows[i].Users)
		p.table.items.Seen.Join(p.rows[i].Items)
	}
}

// cutLines returns the ends of lines at which a text of whole lines is cut into n pieces of about the same length, from 0 to the
// text's.
func cutLines(text []byte, n int) []int {
	cuts := make([]int, n+1)
	for i := 1; i < n; i++ {
		at := max(len(text)/n*i, cuts[i-1])
		cuts[i] = at + bytes.IndexByte(text[at:], '\n') + 1
	}
	cuts[n] = len(text)
	return cuts
}

// lineRuns are the lines of ratings: where they follow one another, only the first is kept.
type lineRuns []lineRun

type lineRun struct{ rating, line int }

// add says that a rating, and those behind it until another is added, stands on a line.
func (l *lineRuns) add(rating, line int) {
	if n := len(*l); n > 0 && line-rating == (*l)[n-1].line-(*l)[n-1].rating {
		return
	}
	*l = append(*l, lineRun{rating, line})
}

// at is the line of a rating.
func (l lineRuns) at(rating int32) int {
	i, found := slices.BinarySearchFunc(l, int(rating), func(run lineRun, rating int) int { return cmp.Compare(run.rating, rating) })
	if !found {
		i--
	}
	return l[i].line + int(rating) - l[i].rating
}

// plainUnrated are the values that the reader of plain lines leaves to the scanner, which counts them.
func (t *table) plainUnrated() []float64 {
	if t.format.Zeros {
		return append(slices.Clone(t.unrated), 0)
	}
	return t.unrated
}
