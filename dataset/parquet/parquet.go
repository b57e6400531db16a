// Package parquet lets package read read Parquet files of ratings. A program imports it for that effect, as it imports image/png for pictures:
//
//	import _ "github.com/fedsim/fedsim/dataset/parquet"
//
// Both commands do. Other programs are spared the library, which links net/http.
package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	pq "github.com/parquet-go/parquet-go/format"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/lists"
)

const (
	julian1970 = 2_440_588 // the Julian day of 1970-01-01
	batchSize  = 1024      // values that are decoded at a time, of each column
)

// rows are the rows of a Parquet file, read column by column as they are needed.
type rows struct {
	ctx      context.Context
	file     *parquet.File
	progress func(int64)
	all      []*parquet.Column  // of the file
	columns  []*column          // that are read
	groups   []parquet.RowGroup // that remain
	left     int                // rows of the present group that remain to be decoded
	batch    int                // rows that are decoded
	next1    int                // the next of them
	row      int                // rows returned so far
	fields   [][]byte
	readErr  error
}

// column is a column of the file that the reader needs.
type column struct {
	leaf   *parquet.Column
	values parquet.ValueReader
	buf    [batchSize]parquet.Value
	text   []byte
	write  valueType
}

// valueType appends the text of a value that is there.
type valueType func(text []byte, v parquet.Value) ([]byte, error)

func init() { records.Parquet = open }

// open opens a file of size bytes.
func open(ctx context.Context, r io.ReaderAt, size int64, progress func(int64)) (_ records.ParquetFile, err error) {
	if err = checkFooter(r, size); err != nil {
		return nil, err
	}
	defer recoverParquet(&err)
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a whole Parquet file: %w", err)
	}
	return &rows{ctx: ctx, file: file, progress: progress, groups: file.RowGroups(), all: columnsBelow(file.Root())}, nil
}

// Names returns the names of the columns, with dots between a group and what is in it.
func (p *rows) Names() []string {
	return lists.Map(p.all, func(c *parquet.Column) string { return strings.Join(c.Path(), ".") })
}

// columnsBelow lists the columns of a group, and of the groups within it behind each. A column of lists stands for what is in them.
func columnsBelow(group *parquet.Column) (list []*parquet.Column) {
	for _, c := range group.Columns() {
		if list = append(list, c); !c.Leaf() && !c.Repeated() && c.Type().LogicalType() == nil {
			list = append(list, columnsBelow(c)...)
		}
	}
	return list
}

// First returns the first value of each column, empty where it is no single value.
func (p *rows) First() (_ [][]byte, err error) {
	defer recoverParquet(&err)
	record := make([][]byte, len(p.all))
	for i, leaf := range p.all {
		c, err := columnOf(p.file, leaf, false)
		if err != nil || len(p.groups) == 0 || p.groups[0].NumRows() == 0 {
			continue
		}
		c.values = parquet.NewColumnChunkValueReader(p.groups[0].ColumnChunks()[leaf.Index()])
		if err = c.fill(1); err == nil {
			record[i], _ = c.field(0)
		}
	}
	return record, nil
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

// Choose makes the columns in the given places the fields of a record. The first two are of ids.
func (p *rows) Choose(places []int) (err error) {
	defer recoverParquet(&err)
	for i, at := range places {
		c, err := columnOf(p.file, p.all[at], i <= records.Item)
		if err != nil {
			return err
		}
		p.columns = append(p.columns, c)
	}
	return nil
}

// columnOf makes a column ready to be read. Ids may not be truths, nor floats that are no exact integers.
func columnOf(file *parquet.File, leaf *parquet.Column, isID bool) (*column, error) {
	c := &column{leaf: leaf}
	if !leaf.Leaf() || leaf.Repeated() {
		return c, fmt.Errorf("the column %q is of lists or groups; want one value in a row", leaf.Name())
	}
	if isID && leaf.Type().Kind() == parquet.Boolean {
		return c, fmt.Errorf("the column %q is of truths, which are no ids", leaf.Name())
	}
	var logical any
	if kind := leaf.Type().LogicalType(); kind != nil {
		logical = kind.Value
	}
	for i, at := 0, 0; logical == nil && i < len(file.Metadata().Schema); i++ { // the library does not pass on all logical types
		if e := file.Metadata().Schema[i]; !e.NumChildren.Valid || e.NumChildren.V == 0 {
			if at == leaf.Index() {
				logical = e.LogicalType.Value
			}
			at++
		}
	}
	c.write = logicalType(logical, leaf.Type().Kind(), isID)
	return c, nil
}

// logicalType returns how values of a logical type are written. A type that says no more than the physical type, the kind, is written as that.
func logicalType(logical any, kind parquet.Kind, isID bool) valueType {
	switch of := logical.(type) {
	case *pq.UUIDType:
		return func(text []byte, v parquet.Value) ([]byte, error) {
			b := v.ByteArray()
			if len(b) != 16 {
				return nil, fmt.Errorf("a UUID of %d bytes; want 16", len(b))
			}
			return fmt.Appendf(text, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
		}
	case *pq.DecimalType:
		return decimals(int(of.Scale))
	case *pq.Float16Type:
		return func(text []byte, v parquet.Value) ([]byte, error) {
			b := v.ByteArray()
			if len(b) != 2 {
				return nil, fmt.Errorf("a float of %d bytes; want 2", len(b))
			}
			return appendFloat(text, halfFloat(binary.LittleEndian.Uint16(b)), 16, isID)
		}
	case *pq.IntType:
		if !of.IsSigned {
			return func(text []byte, v parquet.Value) ([]byte, error) {
				if v.Kind() == parquet.Int32 {
					return strconv.AppendUint(text, uint64(uint32(v.Int32())), 10), nil
				}
				return strconv.AppendUint(text, uint64(v.Int64()), 10), nil
			}
		}
	case *pq.DateType:
		return func(text []byte, v parquet.Value) ([]byte, error) {
			return appendTime(text, int64(v.Int32())*86_400, 0, isID), nil
		}
	case *pq.TimestampType:
		units := int64(1e9) // in a second
		switch of.Unit.Value.(type) {
		case *pq.MilliSeconds:
			units = 1e3
		case *pq.MicroSeconds:
			units = 1e6
		}
		return func(text []byte, v parquet.Value) ([]byte, error) {
			return appendTime(text, v.Int64()/units, v.Int64()%units*(1e9/units), isID), nil
		}
	}
	return physicalType(kind, isID)
}

// physicalType returns how values are written of which the file says no more than their bytes.
func physicalType(kind parquet.Kind, isID bool) valueType {
	switch kind {
	case parquet.Int96: // a time in nanoseconds and a Julian day, as Spark and Impala wrote it
		return func(text []byte, v parquet.Value) ([]byte, error) {
			x := v.Int96()
			days, nanos := int64(x[2])-julian1970, int64(x[1])<<32|int64(x[0])
			return appendTime(text, days*86_400+nanos/1e9, nanos%1e9, isID), nil
		}
	case parquet.Float:
		return func(text []byte, v parquet.Value) ([]byte, error) {
			return appendFloat(text, float64(v.Float()), 32, isID)
		}
	case parquet.Double:
		return func(text []byte, v parquet.Value) ([]byte, error) { return appendFloat(text, v.Double(), 64, isID) }
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(_ []byte, v parquet.Value) ([]byte, error) { return v.ByteArray(), nil }
	default:
		return func(text []byte, v parquet.Value) ([]byte, error) { return fmt.Append(text, v), nil }
	}
}

// appendFloat writes a float of so many bits, and an id only where it is an exact integer.
func appendFloat(text []byte, v float64, bits int, isID bool) ([]byte, error) {
	if isID {
		exact := map[int]float64{16: 1 << 11, 32: 1 << 24, 64: 1 << 53}
		id, err := idtext.OfFloat(v, exact[bits])
		return append(text, id...), err
	}
	return strconv.AppendFloat(text, v, 'f', -1, max(bits, 32)), nil
}

// halfFloat returns the value of a float of 16 bits, by IEEE 754.
func halfFloat(b uint16) float64 {
	v := float64(math.Float32frombits(uint32(b&0x7fff)<<13)) * 0x1p112 // the bias of the exponent is 15 there, and 127 in 32 bits
	switch {
	case b&0x7fff > 0x7c00:
		return math.NaN()
	case b&0x7fff == 0x7c00:
		v = math.Inf(1)
	}
	if b>>15 == 1 {
		return -v
	}
	return v
}

// appendTime writes seconds since 1970 with all their nanoseconds, since two ids may differ in these alone. It writes
// nothing where there is no time: any time is an id.
func appendTime(text []byte, at, nanos int64, isID bool) []byte {
	if !isID && !records.IsTime(float64(at)) {
		return text
	}
	if at < 0 && nanos > 0 {
		at, nanos = at+1, nanos-1e9
	}
	if at < 0 || nanos < 0 {
		text, at, nanos = append(text, '-'), -at, -nanos
	}
	return bytes.TrimRight(bytes.TrimRight(fmt.Appendf(text, "%d.%09d", at, nanos), "0"), ".")
}

// decimals writes decimals with so many digits behind the point.
func decimals(scale int) valueType {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return func(text []byte, v parquet.Value) ([]byte, error) {
		n := new(big.Int)
		switch v.Kind() {
		case parquet.Int32:
			n.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			n.SetInt64(v.Int64())
		default: // two's complement, the highest byte first
			b := v.ByteArray()
			if n.SetBytes(b); len(b) > 0 && b[0]>>7 == 1 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		number := new(big.Rat).SetFrac(n, unit).FloatString(scale)
		if scale > 0 {
			number = strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
		}
		return append(text, number...), nil
	}
}

func (p *rows) At() int { return p.row }

func (p *rows) Locate(file string, err error) error {
	if p.readErr != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &dataset.FileError{File: file, Line: max(1, p.row), Err: err}
}

func (p *rows) Next() ([][]byte, error) {
	if p.next1 == p.batch {
		if err := p.decode(); err != nil {
			return nil, err
		}
	}
	p.fields = p.fields[:0]
	var wrong error
	for _, c := range p.columns {
		field, err := c.field(p.next1)
		if err != nil && wrong == nil {
			wrong = records.Malformed(fmt.Errorf("%s %w", c.leaf.Name(), err))
		}
		p.fields = append(p.fields, field)
	}
	p.next1++
	p.row++
	return p.fields, wrong
}

// decode reads the next values of each column, or io.EOF after the last group.
func (p *rows) decode() (err error) {
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
		for _, c := range p.columns {
			c.values = parquet.NewColumnChunkValueReader(group.ColumnChunks()[c.leaf.Index()])
		}
	}
	p.batch, p.next1 = min(p.left, batchSize), 0
	p.left -= p.batch
	for _, c := range p.columns {
		if err = c.fill(p.batch); err != nil {
			p.batch = 0
			return err
		}
	}
	if p.progress != nil && p.file.NumRows() > 0 {
		p.progress(int64(float64(p.file.Size()) * float64(p.row+p.batch) / float64(p.file.NumRows())))
	}
	return nil
}

func (c *column) fill(n int) error {
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
func (c *column) field(i int) (text []byte, err error) {
	v := c.buf[i]
	if v.IsNull() {
		return nil, nil
	}
	text, err = c.write(c.text[:0], v)
	c.text = text[:0:cap(text)]
	return text, err
}
