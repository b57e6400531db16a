package records

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/fedsim/fedsim/dataset/internal/idtable"
)

// Plain describes the form of line that nearly every file of ratings has from end to end. A line holds
// a user and an item that are small integers, a rating in digits with at most one point, and at most
// one more field, of digits, with separators between:
//
//	196,242,3.5,881250949
//
// Nothing is quoted, no space stands around a field, and the rating is on the scale. Lines end in LF
// or CRLF. A line that differs is left to the scanner, which knows every form and reports errors.
type Plain struct {
	sep      byte
	width    int // 2 where the separator is that byte twice, else 1
	rated    bool
	click    float32 // without ratings, the value of a line
	more     bool    // there is one more field
	timed    bool    // which is a timestamp that is wanted
	min, max float64
	unrated  []float64

	// tenths is the value of a digit, a point and a digit, NaN where it is off the scale.
	tenths [100]float32
}

const (
	// PlainShortest is the shortest line, a click.
	PlainShortest = len("1,1\n")

	maxPlainID    = 7  // digits of an id
	maxPlainField = 16 // bytes of a rating or a timestamp
)

// PlainRows holds one rating per line read.
type PlainRows struct {
	User, Item []int32 // ids
	Value      []float32
	Time       []float64 // where they are wanted
	N          int       // ratings

	Users, Items       idtable.Set // ids of these and of all that were read before
	newUsers, newItems []int32     // of these alone
}

// PlainOf is the form of the plain lines of a file; false where its columns stand in another order, or among others.
func PlainOf(d Dialect, cols Columns, min, max float64, unrated []float64) (*Plain, bool) {
	p := &Plain{
		sep: d.sep[0], width: len(d.sep), rated: cols.Rating >= 0, timed: cols.Time >= 0, click: float32(max), min: min, max: max, unrated: unrated,
	}
	least := 2
	if p.rated {
		least = 3
	}
	p.more = cols.Count == least+1
	if cols.User != 0 || cols.Item != 1 || p.rated && cols.Rating != 2 || cols.Count != least && !p.more || p.timed && cols.Time != least {
		return nil, false
	}
	for i := range p.tenths {
		p.tenths[i] = p.onScale(float64(i) / 10)
	}
	return p, true
}

// onScale is a rating as it is kept, NaN where it is off the scale or says that an item was not rated.
func (p *Plain) onScale(v float64) float32 {
	if v < p.min || v > p.max || slices.Contains(p.unrated, v) {
		return float32(math.NaN())
	}
	return float32(v)
}

// Parse reads the lines of text[:end] up to the first that is not plain, and returns how many bytes they are. The last byte
// of text[:end] ends a line, and Slack bytes follow it. It is one loop, since a call costs as much as a field.
func (p *Plain) Parse(text []byte, end int, out *PlainRows) (at int) {
	out.reset(end/PlainShortest + 1)
	user := out.User
	item, value := out.Item[:len(user)], out.Value[:len(user)]
	sep, width := p.sep, p.width
	var last, lastMask uint64 // the user's field of the line before with the byte behind it, and where they are in a word
	var id int32              // of that user
	var idLen int
	k := 0
	for ; at < end && k < len(user); k++ {
		line := (*[Slack]byte)(text[at:])
		w := word(line[:])
		if w&lastMask != last || lastMask == 0 {
			idLen = digits(w)
			v := leading(w, idLen)
			if idLen == 0 || idLen > maxPlainID || v >= idtable.MaxSmall || byte(w) == '0' && idLen > 1 {
				break
			}
			id, lastMask = int32(v), math.MaxUint64>>(56-8*uint(idLen)&63)
			last = w & lastMask
		}
		q := idLen
		if line[q] != sep || line[q+width-1] != sep {
			break
		}
		q += width

		w = word(line[q:])
		n := digits(w)
		itemID := leading(w, n)
		if n == 0 || n > maxPlainID || itemID >= idtable.MaxSmall || byte(w) == '0' && n > 1 {
			break
		}
		q += n

		v, when := p.click, 0.
		if p.rated {
			if line[q] != sep || line[q+width-1] != sep {
				break
			}
			q += width
			w = word(line[q:])
			units, tenth := byte(w)-'0', byte(w>>16)-'0'
			switch {
			case units < 10 && byte(w>>8) == '.' && tenth < 10 && byte(w>>24)-'0' >= 10:
				v, n = p.tenths[10*units+tenth], 3
			case units < 10 && byte(w>>8) != '.' && byte(w>>8)-'0' >= 10:
				v, n = p.tenths[10*units], 1
			default:
				v, n = p.decimal(line[q:])
			}
			if v != v { //nolint:gocritic // NaN: off the scale, or no number
				break
			}
			q += n
		}
		if p.more {
			if line[q] != sep || line[q+width-1] != sep {
				break
			}
			q += width
			n = digits(word(line[q:]))
			if n == 8 {
				n += digits(word(line[q+8:]))
			}
			if n == 0 || n > maxPlainField {
				break
			}
			if p.timed {
				var short bool
				if when, short = parseShortDecimal(line[q : q+n]); !short {
					break
				}
			}
			q += n
		}
		if line[q] == '\r' {
			q++
		}
		if line[q] != '\n' {
			break
		}
		at += q + 1
		user[k], item[k], value[k] = id, int32(itemID), v
		if p.timed {
			out.Time = append(out.Time, when)
		}
		if !out.Users.Has(id) {
			out.Users.Add(id)
			out.newUsers = append(out.newUsers, id)
		}
		if !out.Items.Has(int32(itemID)) {
			out.Items.Add(int32(itemID))
			out.newItems = append(out.newItems, int32(itemID))
		}
	}
	out.N = k
	return at
}

// reset makes room for n ratings.
func (r *PlainRows) reset(n int) {
	if len(r.User) < n {
		r.User, r.Item, r.Value = make([]int32, n), make([]int32, n), make([]float32, n)
	}
	r.Time, r.newUsers, r.newItems, r.N = r.Time[:0], r.newUsers[:0], r.newItems[:0], 0
}

// Discard forgets what was read last.
func (r *PlainRows) Discard() {
	for _, id := range r.newUsers {
		r.Users.Remove(id)
	}
	for _, id := range r.newItems {
		r.Items.Remove(id)
	}
}

// word is eight bytes of text, the first of them in its lowest byte.
func word(text []byte) uint64 { return binary.LittleEndian.Uint64(text) }

// zeros is the digit zero in every byte.
const zeros = 0x3030303030303030

// digits counts the digits at the beginning of a word.
func digits(w uint64) int {
	t := w ^ zeros // below 10 in the place of a digit
	// The first byte that is no digit is told right: only such a one could carry into the next.
	return bits.TrailingZeros64((t+0x7676767676767676|t)&0x8080808080808080) / 8
}

// leading is the value of the first n digits of a word, n of 1 to 8; of none, anything.
func leading(w uint64, n int) uint64 {
	v := (w ^ zeros) << (64 - 8*uint(n)&63) // zeros lead
	v = v*10 + v>>8                         // of two digits, in every second byte
	return ((v&0x000000ff000000ff)*(100+1_000_000<<32) + (v>>16&0x000000ff000000ff)*(1+10_000<<32)) >> 32
}

// decimal is the rating at the beginning of a text and how many bytes it has; NaN where it is off the scale, or longer than
// ratings are.
func (p *Plain) decimal(text []byte) (float32, int) {
	n := 0
	for n <= maxPlainField && (text[n] == '.' || text[n]-'0' < 10) {
		n++
	}
	v, ok := parseShortDecimal(text[:n])
	if !ok {
		return float32(math.NaN()), 0
	}
	return p.onScale(v), n
}
