package records

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"
	pq "github.com/parquet-go/parquet-go/format"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/files"
)

const (
	julian1970   = 2_440_588 // the Julian day of 1970-01-01
	parquetBatch = 1024      // values that are decoded at a time, of each column
)

// parquetRows are the rows of a Parquet file, read column by column as they are needed.
type parquetRows struct {
	ctx      context.Context
	file     *parquet.File
	progress func(int64)
	columns  []parquetColumn
	groups   []parquet.RowGroup // that remain
	left     int                // rows of the present group that remain to be decoded
	batch    int                // rows that are decoded
	next1    int                // the next of them
	row      int                // rows returned so far
	fields   [][]byte
	readErr  error
}

// parquetColumn is a column of the file that the reader needs.
type parquetColumn struct {
	leaf   *parquet.Column
	values parquet.ValueReader
	buf    [parquetBatch]parquet.Value
	text   []byte
	scale  float64 // of timestamps: units in a second; 0 of anything else
	whole  bool    // integers without a sign
}

// openParquet recognizes a Parquet file by the names of its columns. Its end says where they
// are, so that it cannot come from a pipe or an archive.
func openParquet(s *Scanner, in files.Input, o Options) (out RatingRows, err error) {
	p := &parquetRows{ctx: s.ctx, progress: in.Progress}
	out.Rows = p
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
	if err = checkFooter(whole, size); err != nil {
		return out, err
	}
	defer recoverParquet(&err)
	if p.file, err = parquet.OpenFile(whole, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return out, fmt.Errorf("not a whole Parquet file: %w", err)
	}
	var header [][]byte
	leaves := p.file.Root().Columns()
	for _, c := range leaves {
		header = append(header, []byte(c.Name()))
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
	out.Cols, err = p.choose(leaves, out.Cols)
	p.groups = p.file.RowGroups()
	return out, err
}

// checkFooter checks how long the footer says to be: the library makes room for as much.
func checkFooter(r io.ReaderAt, size int64) error {
	var end [8]byte // the length and the magic
	if size < 12 {
		return fmt.Errorf("not a whole Parquet file: it has %d bytes", size)
	}
	if _, err := r.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if string(end[4:]) != files.ParquetMagic || int64(binary.LittleEndian.Uint32(end[:])) > size-12 {
		return errors.New("not a whole Parquet file: its end is missing or damaged")
	}
	return nil
}

// recoverParquet makes an error of a panic: the library checks checksums and lengths, and
// still indexes by what a damaged file says here and there.
func recoverParquet(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("not a whole Parquet file: %v", r)
	}
}

// choose makes the columns that are there the fields of a record, in the order user, item, rating,
// timestamp.
func (p *parquetRows) choose(leaves []*parquet.Column, cols Columns) (Columns, error) {
	for _, at := range []*int{&cols.User, &cols.Item, &cols.Rating, &cols.Time} {
		if *at < 0 {
			continue
		}
		c := parquetColumn{leaf: leaves[*at]}
		if !c.leaf.Leaf() || c.leaf.Repeated() {
			return cols, fmt.Errorf("the column %q is of lists or groups; want one value in a row", c.leaf.Name())
		}
		if err := c.annotated(); err != nil {
			return cols, err
		}
		p.columns = append(p.columns, c)
		*at = len(p.columns) - 1
	}
	cols.Count = len(p.columns)
	return cols, nil
}

// annotated goes by what the file says of the column beyond its type.
func (c *parquetColumn) annotated() error {
	if c.leaf.Type().Kind() == parquet.Int96 {
		return nil // a time in nanoseconds and a Julian day, as Spark and Impala wrote it
	}
	kind := c.leaf.Type().LogicalType()
	if kind == nil {
		return nil
	}
	switch kind := kind.Value.(type) {
	case *pq.DecimalType:
		return fmt.Errorf("the column %q is of decimals; write it as text or as a floating-point number", c.leaf.Name())
	case *pq.IntType:
		c.whole = !kind.IsSigned
	case *pq.DateType:
		c.scale = 1. / 86_400
	case *pq.TimestampType:
		switch kind.Unit.Value.(type) {
		case *pq.MilliSeconds:
			c.scale = 1e3
		case *pq.MicroSeconds:
			c.scale = 1e6
		default:
			c.scale = 1e9
		}
	}
	return nil
}

func (p *parquetRows) At() int { return p.row }

func (p *parquetRows) Locate(file string, err error) error {
	if p.readErr != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &dataset.FileError{File: file, Line: max(1, p.row), Err: err}
}

func (p *parquetRows) Next() ([][]byte, error) {
	if p.next1 == p.batch {
		if err := p.decode(); err != nil {
			return nil, err
		}
	}
	p.fields = p.fields[:0]
	for i := range p.columns {
		p.fields = append(p.fields, p.columns[i].field(p.next1))
	}
	p.next1++
	p.row++
	return p.fields, nil
}

// decode reads the next values of each column, or io.EOF after the last group.
func (p *parquetRows) decode() (err error) {
	defer recoverParquet(&err)
	if p.readErr = p.ctx.Err(); p.readErr != nil {
		return p.readErr
	}
	for p.left == 0 {
		if len(p.groups) == 0 {
			return io.EOF
		}
		group := p.groups[0]
		p.groups, p.left = p.groups[1:], int(group.NumRows())
		for i := range p.columns {
			c := &p.columns[i]
			c.values = parquet.NewColumnChunkValueReader(group.ColumnChunks()[c.leaf.Index()])
		}
	}
	p.batch, p.next1 = min(p.left, parquetBatch), 0
	p.left -= p.batch
	for i := range p.columns {
		if err = p.columns[i].fill(p.batch); err != nil {
			p.batch = 0
			return err
		}
	}
	if p.progress != nil && p.file.NumRows() > 0 {
		p.progress(int64(float64(p.file.Size()) * float64(p.row+p.batch) / float64(p.file.NumRows())))
	}
	return nil
}

// fill decodes n values.
func (c *parquetColumn) fill(n int) error {
	for have := 0; have < n; {
		got, err := c.values.ReadValues(c.buf[have:n])
		for i := have; i < have+got; i++ {
			c.buf[i] = c.buf[i].Clone() // what it points to is gone with the page
		}
		have += got
		if have < n && err == nil && got == 0 {
			err = io.ErrNoProgress
		}
		if have < n && err != nil {
			return fmt.Errorf("not a whole Parquet file: the column %q ends early: %w", c.leaf.Name(), err)
		}
	}
	return nil
}

// field is a value as text; empty for null.
func (c *parquetColumn) field(i int) []byte {
	v := c.buf[i]
	c.text = c.text[:0]
	switch {
	case v.IsNull():
	case v.Kind() == parquet.Int96:
		x := v.Int96()
		seconds := float64(int64(x[2])-julian1970)*86_400 + float64(uint64(x[1])<<32|uint64(x[0]))/1e9
		c.text = strconv.AppendFloat(c.text, seconds, 'f', -1, 64)
	case c.scale > 0 && v.Kind() == parquet.Int32:
		c.text = strconv.AppendFloat(c.text, float64(v.Int32())/c.scale, 'f', -1, 64)
	case c.scale > 0:
		c.text = strconv.AppendFloat(c.text, float64(v.Int64())/c.scale, 'f', -1, 64)
	case c.whole && v.Kind() == parquet.Int32:
		c.text = strconv.AppendUint(c.text, uint64(uint32(v.Int32())), 10)
	case c.whole && v.Kind() == parquet.Int64:
		c.text = strconv.AppendUint(c.text, uint64(v.Int64()), 10)
	case v.Kind() == parquet.Float:
		c.text = strconv.AppendFloat(c.text, float64(v.Float()), 'f', -1, 32)
	case v.Kind() == parquet.Double:
		c.text = strconv.AppendFloat(c.text, v.Double(), 'f', -1, 64)
	case v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray:
		return v.ByteArray()
	default:
		c.text = fmt.Append(c.text, v)
	}
	return c.text
}
