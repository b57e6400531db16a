package records

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/internal/lists"
)

// Format is a kind of ratings file: how it is recognized, the names of its
// columns, its own rating range, and where its items are listed.
type Format struct {
	Name         string // of a published set, "" for others
	Title, About string // for the list of formats; LAYOUT stands for the layout
	Place        int    // in that list, from 1; 0 for a format that is not listed
	Columns      Names  // what it calls its columns; "" for the usual name, or for any place of a row
	Min, Max     float64
	Unrated      []float64 // values off the scale that say that an item was not rated
	Zeros        bool      // so may 0, which is on the scale
	Scaleless    bool      // Min and max are no more than a guess
	Items        string    // the file beside it that lists the items, "" when there is none

	// Of a format without a header: how its fields are told apart, and what they
	// are. A format with one may have its columns in any order, among others.
	Separator string
	Layout    string // the fields of a row, for messages
	Fields    int    // how many there are
	At        [4]int // where user, item, rating and timestamp stand; -1 for a column that is not there
	File      string // the only name such a file may have, "" for any
	Beside    string // a file that must stand in the same folder, "" for none
	Dated     bool   // the timestamp of every row is a date
	IMDb      bool   `yaml:"imdb"` // items have numbers of IMDb
}

//go:embed formats.yaml
var stated []byte

// formats holds the formats of formats.yaml.
var formats = sync.OnceValue(func() (all struct {
	Headed, Published, Headless []Format
	Lines                       map[string]Format
	Generic                     Format
}) {
	if err := yaml.UnmarshalWithOptions(stated, &all, yaml.Strict()); err != nil {
		panic(err) // the file is a part of the program
	}
	return all
})

// GenericCSV returns the format of a file with columns of any name.
func GenericCSV() Format { return formats().Generic }

// isIMDb reports whether an id is a number of IMDb, of seven digits or more with zeros before it.
func isIMDb(id []byte) bool {
	return len(id) >= 7 && id[0] == '0' && len(bytes.Trim(id, "0123456789")) == 0
}

const WantColumns = "want the columns userId, movieId, rating (MovieLens) or user, item, rating (any CSV), or other names by --columns user=NAME,item=NAME,rating=NAME"

// Described returns the formats that a user is told of, each with its title and what it is about.
func Described() []Format {
	list := slices.DeleteFunc(slices.Concat(formats().Headed, formats().Headless), func(f Format) bool { return f.Place == 0 })
	slices.SortFunc(list, func(a, b Format) int { return a.Place - b.Place })
	for i, f := range list {
		list[i].About = strings.ReplaceAll(f.About, "LAYOUT", f.Layout)
	}
	return list
}

// WithItems returns the formats whose lists of items may stand without ratings.
func WithItems() []Format {
	return slices.DeleteFunc(slices.Concat(formats().Headed, formats().Headless), func(f Format) bool { return f.Items == "" || f.IMDb })
}

// Options say how a text is written, where the caller knows. The zero value finds out.
type Options struct {
	Columns   Names
	Separator string // between fields
	NoHeader  bool   // the first row is a rating
}

// The columns of ratings, as places in [Names] and [Columns].
const (
	User = iota
	Item
	Rating
	Time
)

// Names are the names of the columns of a file, where it has others than its format. "" leaves a column the name that the
// format gives it. A whole number that names no column is the place of one, from 1.
type Names [4]string

var (
	kinds = Names{"user", "item", "rating", "timestamp"} // for messages
	usual = Names{Rating: "rating", Time: "timestamp"}   // of a format that says no other
)

// Columns says where the fields of a record stand.
type Columns struct {
	At    [4]int // -1 without ratings, where each record is a click, and without timestamps
	Count int
	Want  string // completes "N fields, want COUNT "
}

// Choose makes the columns that are there the only fields of a record, in their order, and returns the places that they had.
func (c *Columns) Choose() (places []int) {
	for i, at := range c.At {
		if at >= 0 {
			c.At[i] = len(places)
			places = append(places, at)
		}
	}
	c.Count = len(places)
	return places
}

// placed reports whether some column is said by its place.
func (c Names) placed() bool {
	return slices.ContainsFunc(c[:], func(name string) bool {
		_, is := position(name)
		return is
	})
}

// position is the place of a column, from 0, where a number says it.
func position(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= maxPosition
}

// maxPosition is the last column that a number can say.
const maxPosition = 10_000

// formats are the formats with a header, with a file's own names in them. A file that has a name of its own is no MovieLens
// file, though its other columns may be called as in one. Of a published set it may name half of what the set has.
func (c Names) formats() []Format {
	if c[User] == "" && c[Item] == "" {
		return formats().Headed
	}
	return lists.Map(slices.Concat(formats().Headed, formats().Published), func(known Format) Format {
		f := GenericCSV()
		f.Columns = known.Columns
		f.Columns[User], f.Columns[Item] = cmp.Or(c[User], known.Columns[User]), cmp.Or(c[Item], known.Columns[Item])
		return f
	})
}

// parseHeader recognizes a format by its columns, in any order, in upper or lower
// case, among others. The error of a record that names none is errNoHeader.
func parseHeader(header [][]byte, c Names) (Format, Columns, error) {
	header = lists.Map(header, func(name []byte) []byte { return typed.ReplaceAll(name, []byte("$1")) })
	if f, cols, found := publishedHeader(header, c); found {
		return f, cols, nil
	}
	var least []string // missing from the format that lacks the least
	named := c != Names{}
	for _, f := range c.formats() {
		cols, missing, err := findColumns(header, f, c)
		if err != nil {
			return Format{}, Columns{}, err
		}
		if len(missing) == 0 {
			return f, cols, nil
		}
		named = named || len(missing) == 1 || cols.At[Rating] >= 0
		if least == nil || len(missing) < len(least) {
			least = missing
		}
	}
	if !named {
		return Format{}, Columns{}, errNoHeader
	}
	want := WantColumns
	if c != (Names{}) {
		want = "its columns are " + string(bytes.Join(header, []byte(", ")))
	}
	return Format{}, Columns{}, fmt.Errorf("%w %s; %s", errLacks, strings.Join(least, " and "), want)
}

// publishedHeader recognizes the header of a published set, whose columns the caller may name as they are.
func publishedHeader(header [][]byte, c Names) (Format, Columns, bool) {
	for _, f := range formats().Published {
		cols, missing, err := findColumns(header, f, c)
		found := err == nil && len(missing) == 0 && cols.At[Rating] >= 0
		for i, own := range c {
			found = found && (own == "" || strings.EqualFold(own, cmp.Or(f.Columns[i], usual[i])))
		}
		if found {
			return f, cols, true
		}
	}
	return Format{}, Columns{}, false
}

// findColumns finds the columns of a format, and lists the columns that the header lacks. A file
// without a column of ratings is a file of clicks. Its timestamps may be missing too, unless the
// options ask for them by name.
func findColumns(header [][]byte, f Format, c Names) (cols Columns, missing []string, err error) {
	cols = Columns{Count: len(header), Want: "as in the header"}
	for i := range cols.At {
		name := cmp.Or(c[i], f.Columns[i], usual[i])
		if cols.At[i], err = FindColumn(header, name); err != nil {
			return Columns{}, nil, err
		}
		if cols.At[i] < 0 && (i <= Item || c[i] != "" || i == Rating && f.Columns[i] != "") {
			missing = append(missing, strconv.Quote(name))
		}
	}
	return cols, missing, nil
}

// typed matches a name of a header of RecBole, which is followed by a type: user_id:token.
var typed = regexp.MustCompile(`(?s)^(.+):(?:token|float)(?:_seq)?$`)

// FindColumn returns where a header names a column, -1 when it does not.
func FindColumn(header [][]byte, name string) (at int, err error) {
	at = -1
	for i, field := range header {
		if strings.EqualFold(string(field), name) {
			if at >= 0 {
				return at, fmt.Errorf("header names column %q twice; keep one, or say places: --columns user=1,item=2,rating=3", name)
			}
			at = i
		}
	}
	if place, is := position(name); at < 0 && is && place < len(header) {
		return place, nil
	}
	return at, nil
}

var errNoHeader = errors.New("no header")

// errLacks is the error of a header without a column that every row needs.
var errLacks = errors.New("header lacks")
