package read

import (
	"fmt"
	"strings"
)

// Columns are the names of the columns of a file, where it has others than its format. ""
// leaves a column the name that the format gives it. A whole number that names no column is the place of one, from 1.
type Columns struct {
	User, Item, Rating, Timestamp string
	// Label makes the file one of a regression, with this label: User may then name the column of the examples' ids, and every
	// other one holds features.
	Label string
	// Private are the names of columns with private features of a regression, with + between.
	Private string
}

// ParseColumns reads pairs with commas between, such as "user=visitor,item=sku". Names are
// user, item, rating and timestamp, or of a regression label and perhaps user and private. The empty text names none.
func ParseColumns(text string) (Columns, error) {
	var c Columns
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		what, name, paired := strings.Cut(pair, "=")
		what, name = strings.TrimSpace(what), strings.TrimSpace(name)
		to := map[string]*string{"user": &c.User, "item": &c.Item, "rating": &c.Rating, "timestamp": &c.Timestamp, "label": &c.Label, "private": &c.Private}[what]
		switch {
		case !paired || to == nil || name == "":
			return Columns{}, fmt.Errorf("%q is not one of user=NAME, item=NAME, rating=NAME, timestamp=NAME, label=NAME, private=NAME+NAME; a number in place of a name is the place of the column, from 1", strings.TrimSpace(pair))
		case *to != "":
			return Columns{}, fmt.Errorf("%s is named twice, %q and %q; keep one", what, *to, name)
		}
		*to = name
	}
	if c.Private != "" && c.Label == "" {
		return Columns{}, fmt.Errorf("private=%s is of a regression; say which column has the label: label=NAME", c.Private)
	}
	if c.Label != "" && (c.Item != "" || c.Rating != "" || c.Timestamp != "") {
		return Columns{}, fmt.Errorf("label=%s is of a regression, whose other columns are features; beside it only user=NAME, the id of an example, and private=NAME+NAME say something", c.Label)
	}
	return c, nil
}
