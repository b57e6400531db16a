package read

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
)

// checkTimesOf compares the times of ratings. Each time is 100 times the user plus the item in the ids
// of timesFile.
func checkTimesOf(t *testing.T, what string, s *dataset.Set, r dataset.Ratings) {
	t.Helper()
	rows := r.ByUser()
	for u := range rows.Len() {
		items, values := rows.Row(u)
		var want []float64
		for _, j := range items {
			var user, item int
			if _, err := fmt.Sscan(s.UserIDs[u]+" "+s.ItemIDs[j], &user, &item); err != nil {
				t.Fatal(err)
			}
			want = append(want, float64(100*user+item))
		}
		if got := rows.Times(u); !slices.Equal(got, want) || len(got) != len(values) {
			t.Errorf("%s: times of user %s are %v, want %v", what, s.UserIDs[u], got, want)
		}
	}
}

// timesFile has ratings of 20 users, not in the order of ids, whose times say of which pair they are.
func timesFile(t *testing.T) string {
	rows := "user,item,rating,timestamp\n"
	for k := range 200 {
		user, item := 1+k*7%20, 1+k/20*3%11
		rows += fmt.Sprintf("%d,%d,%d,%d\n", user, item, 1+k%5, 100*user+item)
	}
	return ownFile(t, "t.csv", rows)
}

// TestTimesStayWithRatings: in rows, parts of a split, rows of columns in another order, and sets with fewer ratings.
func TestTimesStayWithRatings(t *testing.T) {
	set := open(t, timesFile(t), Options{Times: true})
	checkTimesOf(t, "the set", set, set.Ratings)
	parts, err := split.Divide(set, split.Params{Test: 0.3, Validation: 0.3, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	checkTimesOf(t, "training", set, parts.Train)
	checkTimesOf(t, "validation", set, parts.Validation)
	checkTimesOf(t, "the test", set, parts.Test)
	some := set.Where(func(user, item int32) bool { return (user+item)%3 > 0 })
	checkTimesOf(t, "some", set, some.Ratings)
	back := set.Gather([]int32{150, 3, 90, 2, 151, 20})
	checkTimesOf(t, "another order", set, back)
	taken, err := split.TakeOut(set, split.PublicUsers{Count: 5})
	if err != nil {
		t.Fatal(err)
	}
	checkTimesOf(t, "without public users", taken, taken.Ratings)
	welcome, err := split.TakeOut(open(t, timesFile(t), Options{MaybeTimes: true}), split.PublicUsers{Count: 5})
	if err != nil {
		t.Fatal(err)
	}
	checkTimesOf(t, "no more than welcome, without public users", welcome, welcome.Ratings)
	if without, err := split.TakeOut(open(t, timesFile(t), Options{}), split.PublicUsers{Count: 5}); err != nil || without.Digest != welcome.Digest {
		t.Errorf("digest %s without public users, %v; want %s", welcome.Digest, err, without.Digest)
	}
	plain := open(t, timesFile(t), Options{})
	if times := plain.ByUser().Times(0); times != nil {
		t.Errorf("nobody asked, and times are %v", times)
	}
}

// TestMaybeTimes: timestamps that are welcome are the same as timestamps that are required, and do not change the digest. A
// timestamp that cannot be read costs its rating the time, and no other.
func TestMaybeTimes(t *testing.T) {
	asked, welcome := open(t, timesFile(t), Options{Times: true}), open(t, timesFile(t), Options{MaybeTimes: true})
	if plain := open(t, timesFile(t), Options{}); welcome.Digest != plain.Digest || asked.Digest == plain.Digest {
		t.Errorf("digest %s, want %s as without times, and another where they are asked for, which is %s", welcome.Digest, plain.Digest, asked.Digest)
	}
	if !slices.Equal(asked.Times, welcome.Times) || welcome.Times == nil {
		t.Errorf("times %v, want %v", welcome.Times, asked.Times)
	}
	for name, c := range map[string]struct {
		text string
		want []float64
	}{
		"one is no time":     {"user,item,rating,timestamp\na,x,1,5\na,y,2,soon\nb,x,3,7\n", []float64{5, math.NaN(), 7}},
		"one is not there":   {"user,item,rating,timestamp\na,x,1,\na,y,2,6\nb,x,3,7\n", []float64{math.NaN(), 6, 7}},
		"none can be read":   {"user,item,rating,timestamp\na,x,1,\na,y,2,soon\nb,x,3,late\n", nil},
		"there is no column": {"user,item,rating\na,x,1\na,y,2\nb,x,3\n", nil},
	} {
		set := open(t, ownFile(t, "t.csv", c.text), Options{MaybeTimes: true})
		plain := open(t, ownFile(t, "t.csv", c.text), Options{})
		if !cmp.Equal(c.want, set.Times, cmpopts.EquateNaNs()) || set.Digest != plain.Digest || set.Len() != 3 {
			t.Errorf("%s: times %v of %d ratings, want %v", name, set.Times, set.Len(), c.want)
		}
	}
	packed := filepath.Join(t.TempDir(), "small.pack")
	if _, err := PackFile(t.Context(), "synthetic:small", Options{}, packed); err != nil {
		t.Fatal(err)
	}
	if set := open(t, packed, Options{MaybeTimes: true}); set.Times != nil {
		t.Error("a packed set has times")
	}
}

// TestTimesOfMemory: of ratings in memory too; a time of 0 for all is none.
func TestTimesOfMemory(t *testing.T) {
	list := []Rating{{User: "b", Item: "x", Value: 1, Time: 7}, {User: "a", Item: "x", Value: 2}}
	scale := Options{Min: new(1.), Max: new(5.), MaybeTimes: true}
	set, err := FromRatings("made up", list, scale)
	if err != nil || !slices.Equal(set.Times, []float64{0, 7}) {
		t.Errorf("times %v, %v; want 0 of a and 7 of b", set.Times, err)
	}
	list[0].Time = 0
	if set, err = FromRatings("made up", list, scale); err != nil || set.Times != nil {
		t.Errorf("times %v, %v; want none", set.Times, err)
	}
	if _, err = split.Divide(set, split.Params{By: split.Time}); !errors.Is(err, split.ErrNoTimes) {
		t.Errorf("split by time: %v, want ErrNoTimes", err)
	}
}

// Dates that are written as one number are read as dates if all numbers of the file are such dates. 1717113600 is
// 2024-05-31 00:00 UTC (date -u -d 2024-05-31 +%s).
func TestDatesOfDigits(t *testing.T) {
	file := func(times ...string) string {
		text := "user,item,rating,timestamp\n"
		for k, at := range times {
			text += fmt.Sprintf("1,%d,3,%s\n", k, at)
		}
		return ownFile(t, "t.csv", text)
	}
	for name, c := range map[string]struct {
		times []string
		want  []float64
		found string
	}{
		"days":             {[]string{"20240531", "20240601", "0"}, []float64{1717113600, 1717200000, 0}, "dates such as 20240531"},
		"minutes":          {[]string{"202405310001"}, []float64{1717113660}, "dates such as 202405311800"},
		"seconds":          {[]string{"20240531000001", "20240531000000"}, []float64{1717113601, 1717113600}, "dates such as 20240531180000"},
		"a month 13":       {[]string{"20240531", "20241301"}, []float64{20240531, 20241301}, ""},
		"another number":   {[]string{"20240531", "20240532"}, []float64{20240531, 20240532}, ""},
		"seconds of today": {[]string{"1717113600"}, []float64{1717113600}, ""},
		"a fraction":       {[]string{"20240531.5"}, []float64{20240531.5}, ""},
		"none":             {[]string{"0"}, []float64{0}, ""},
	} {
		set := open(t, file(c.times...), Options{Times: true})
		if !slices.Equal(set.Times, c.want) {
			t.Errorf("%s: %v, want %v", name, set.Times, c.want)
		}
		said := ""
		for _, f := range set.Findings {
			if f.What == "form of times" {
				said = f.Found
			}
		}
		if said != c.found {
			t.Errorf("%s: found %q, want %q", name, said, c.found)
		}
	}
	if at, err := ParseTime("20240531"); at != 1717113600 || err != nil {
		t.Errorf("a moment in digits is %v, %v", at, err)
	}
}

// Times in milliseconds, microseconds and nanoseconds become seconds, with a notice. Times of several units
// stay as they are, with a notice.
func TestUnitsOfTimes(t *testing.T) {
	file := func(unit string) string {
		return ownFile(t, "t.csv", "user,item,rating,timestamp\n1,1,3,1500000000"+unit+"\n1,2,4,1600000000"+unit+"\n2,1,5,0\n")
	}
	want := []float64{1500000000, 1600000000, 0}
	for unit, name := range map[string]string{"": "", "000": "milliseconds", "000000": "microseconds", "000000000": "nanoseconds"} {
		set := open(t, file(unit), Options{Times: true})
		if !slices.Equal(set.Times, want) {
			t.Errorf("%s: %v, want %v", name, set.Times, want)
		}
		said := slices.ContainsFunc(set.Findings, func(f dataset.Finding) bool { return f.What == "unit of times" && f.Found == name })
		if said != (name != "") {
			t.Errorf("%s: findings %v", name, set.Findings)
		}
	}
	set := open(t, ownFile(t, "t.csv", "user,item,rating,timestamp\n1,1,3,1500000000\n1,2,4,1600000000000\n"), Options{Times: true})
	if !slices.Equal(set.Times, []float64{1500000000, 1600000000000}) || len(set.Notices) == 0 || set.Notices[len(set.Notices)-1].Kind != dataset.NoticeTimes {
		t.Errorf("of two units: %v, %v", set.Times, set.Notices)
	}
	if at, err := ParseTime("1600000000000"); at != 1600000000 || err != nil {
		t.Errorf("a moment in milliseconds is %v, %v", at, err)
	}
}

// Dates whose day and month are both at most 12 have the month first unless the caller says otherwise. The
// seconds are from date -u -d 2024-06-05 +%s and date -u -d 2024-05-06 +%s.
func TestDayFirst(t *testing.T) {
	path := ownFile(t, "t.csv", "user,item,rating,timestamp\n1,1,3,05/06/2024\n")
	set := open(t, path, Options{Times: true, Form: Form{DayFirst: true}})
	if !slices.Equal(set.Times, []float64{1717545600}) || len(set.Notices) > 0 && set.Notices[0].Kind == dataset.NoticeTimes {
		t.Errorf("day first: %v, %v", set.Times, set.Notices)
	}
	set = open(t, path, Options{Times: true})
	if !slices.Equal(set.Times, []float64{1714953600}) || !slices.ContainsFunc(set.Notices, func(n dataset.Notice) bool { return strings.Contains(n.Text, "--day-first") }) {
		t.Errorf("month first: %v, %v", set.Times, set.Notices)
	}
	path = ownFile(t, "t.csv", "user,item,rating,timestamp\n1,1,3,05/26/2024\n")
	if _, err := Open(t.Context(), path, Options{Times: true, Form: Form{DayFirst: true}}); err == nil || !strings.Contains(err.Error(), "leave --day-first out") {
		t.Errorf("the month is first: %v", err)
	}
}
