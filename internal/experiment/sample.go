package experiment

import (
	"fmt"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/pack"
)

// Sample is the experiment with so many of its users, who stand at even distances, and with every setting as it is here: to see
// what a user costs. Ratings that are packed are packed in it. It protects, and shows, nothing.
func (e *Experiment) Sample(users int) (*Experiment, error) {
	if e.Public() {
		return nil, ErrNoRatings
	}
	if users < 1 || users > e.Data.Users {
		return nil, fmt.Errorf("experiment: a sample of %d of %d users", users, e.Data.Users)
	}
	set := *e.Data
	set.Ratings, set.UserIDs = dataset.Ratings{Users: users, Items: e.Data.Items}, nil
	set.Tested = nil
	rows := e.Data.ByUser()
	for u := range users {
		at := int(int64(u) * int64(e.Data.Users) / int64(users))
		set.UserIDs = append(set.UserIDs, e.Data.UserIDs[at])
		items, values := rows.Row(at)
		for k, j := range items {
			set.User, set.Item, set.Value = append(set.User, int32(u)), append(set.Item, j), append(set.Value, values[k])
		}
		set.Times = append(set.Times, rows.Times(at)...)
	}
	if e.Data.Packed != nil {
		packed, err := pack.InMemory(&set)
		if err != nil {
			return nil, err
		}
		return OpenSet(e.Config, packed)
	}
	return OpenSet(e.Config, &set)
}
