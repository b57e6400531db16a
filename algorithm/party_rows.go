package algorithm

import (
	"fmt"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/model"
)

// PartyRows are the users of an organisation that has some of them (HFL): their indices, ascending, what they rated, and where
// each is among the users of its data, or -1.
func (s *Setup) PartyRows(which PartyData, l *LocalData) (users []int32, rows []model.Ratings, at []int, err error) {
	if users, err = s.partyUsers(which); err != nil {
		return nil, nil, nil, err
	}
	places := make(map[string]int, l.Set.Users)
	for k, id := range l.Set.UserIDs {
		places[id] = k
	}
	rows, at = make([]model.Ratings, len(users)), make([]int, len(users))
	for i, u := range users {
		k, rated := places[which.IDs[u]]
		if !rated {
			k = -1
		}
		rows[i], at[i] = l.Row(k), k
		delete(places, which.IDs[u])
	}
	if which.Part == 0 { // the users of others are not left out of all data, but not listed in the party's own
		for _, k := range places {
			items, _ := l.Rows.Row(k)
			l.Skipped += len(items)
			l.Unlisted += len(items)
		}
	}
	return users, rows, at, nil
}

// partyUsers returns the users of a party, as ascending indices into the stated ids. If these are
// not all users, the indices are not the federation's, which no party knows. They decide nothing
// but the order in which the party fine-tunes for itself.
func (s *Setup) partyUsers(which PartyData) ([]int32, error) {
	if err := s.CheckPart(which); err != nil {
		return nil, err
	}
	is, must := len(which.IDs), s.Data.Users
	if which.Part == 0 {
		if err := which.CheckStated("the users that are the party's"); err != nil {
			return nil, err
		}
		if is > must {
			return nil, fmt.Errorf("%w: %d users are stated; all parties together have %d", ErrPartyData, is, must)
		}
		users := make([]int32, is)
		for i := range users {
			users[i] = int32(i)
		}
		return users, nil
	}
	if err := which.CheckStated(fmt.Sprintf("the users of all parties (%d users; part %d is dealt)", must, which.Part)); err != nil {
		return nil, err
	}
	if is != must {
		return nil, fmt.Errorf("%w: %d users are stated, and a part is dealt of all %d; state all, or the party's own without a part", ErrPartyData, is, must)
	}
	all := dataset.Set{Ratings: dataset.Ratings{Users: is}, UserIDs: which.IDs}
	parts, err := split.PartitionUsers(&all, Parties.Int(s.Config), Seed.Of(s.Config))
	if err != nil {
		return nil, err
	}
	return parts[which.Part-1], nil
}
