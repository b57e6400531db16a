package dataset

// Where is a set with some of the ratings. Which users and items there are stays.
func (s *Set) Where(keep func(user, item int32) bool) *Set {
	set := *s
	set.Ratings = Ratings{Users: s.Users, Items: s.Items}
	set.Tested = nil
	for k, u := range s.User {
		if !keep(u, s.Item[k]) {
			continue
		}
		set.User, set.Item, set.Value = append(set.User, u), append(set.Item, s.Item[k]), append(set.Value, s.Value[k])
		if s.Times != nil {
			set.Times = append(set.Times, s.Times[k])
		}
		if s.Tested != nil {
			set.Tested = append(set.Tested, s.Tested[k])
		}
	}
	return &set
}
