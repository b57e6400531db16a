// Package published knows the data sets that others publish: their counts, addresses and digests ([Lookup]), and the folder that holds
// downloaded copies ([Cache]). It opens no connection, as package download does, and reads no ratings, as package read does.
package published

import "slices"

// Set is a data set that others publish, and what is known about it.
type Set struct {
	Name        string
	Description string
	Terms       string // address of the terms under which it may be used

	// Address is the address of the archive, "" for a set without a known lasting address. MD5 and
	// SHA256 are the hex digests of that archive; both are "" when it is renewed from time to time.
	Address, MD5, SHA256 string

	// Counts of the set, as its publisher states them or as they have been counted. For a set that is
	// renewed, counts are of one edition. Items counts the catalogue, or the rated items if there is
	// none.
	Users, Items, RatedItems, Ratings int

	Min, Max float64 // rating range in stars
}

// Renewed reports whether the publisher replaces the archive from time to time, so
// that no digest of it can be known in advance.
func (p Set) Renewed() bool { return p.Address != "" && p.MD5 == "" }

const (
	groupLens = "https://files.grouplens.org/datasets/movielens/"
	petricek  = "http://www.occamslab.com/petricek/data/"
)

// GroupLens publishes the MD5 digests beside the archives. The counts come from the README files
// (Harper, Konstan 2015; Brozovsky, Petricek 2007), except the counts of rated movies, which others
// have counted.
var sets = []Set{
	{
		Name: "ml-100k", Description: "MovieLens 100K (1998), whole stars",
		Address: groupLens + "ml-100k.zip", Terms: groupLens + "ml-100k-README.txt",
		MD5:    "0e33842e24a9c977be4e0107933c0723",
		SHA256: "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
		Users:  943, Items: 1_682, RatedItems: 1_682, Ratings: 100_000, Min: 1, Max: 5,
	},
	{
		Name: "ml-1m", Description: "MovieLens 1M (2000), whole stars",
		Address: groupLens + "ml-1m.zip", Terms: groupLens + "ml-1m-README.txt",
		MD5:    "c4d9eecfca2ab87c1945afe126590906",
		SHA256: "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
		Users:  6_040, Items: 3_883, RatedItems: 3_706, Ratings: 1_000_209, Min: 1, Max: 5,
	},
	{
		Name: "ml-10m", Description: "MovieLens 10M (2009), half stars",
		Address: groupLens + "ml-10m.zip", Terms: groupLens + "ml-10m-README.html",
		MD5:    "ce571fd55effeba0271552578f2648bd",
		SHA256: "813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
		Users:  69_878, Items: 10_681, RatedItems: 10_677, Ratings: 10_000_054, Min: 0.5, Max: 5,
	},
	{
		Name: "ml-20m", Description: "MovieLens 20M (2015), half stars",
		Address: groupLens + "ml-20m.zip", Terms: groupLens + "ml-20m-README.html",
		MD5:    "cd245b17a1ae2cc31bb14903e1204af3",
		SHA256: "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
		Users:  138_493, Items: 27_278, RatedItems: 26_744, Ratings: 20_000_263, Min: 0.5, Max: 5,
	},
	{
		Name: "ml-25m", Description: "MovieLens 25M (2019), half stars",
		Address: groupLens + "ml-25m.zip", Terms: groupLens + "ml-25m-README.html",
		MD5:    "6b51fb2759a8657d3bfcbfc42b592ada",
		SHA256: "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
		Users:  162_541, Items: 62_423, RatedItems: 59_047, Ratings: 25_000_095, Min: 0.5, Max: 5,
	},
	{
		Name: "ml-latest-small", Description: "MovieLens latest-small, half stars; renewed from time to time, counts of September 2018",
		Address: groupLens + "ml-latest-small.zip", Terms: groupLens + "ml-latest-small-README.html",
		Users: 610, Items: 9_742, RatedItems: 9_724, Ratings: 100_836, Min: 0.5, Max: 5,
	},
	{
		Name: "libimseti", Description: "LibimSeTi dating profiles (2006), 1 to 10; not to be had by data get",
		Terms: petricek,
		Users: 135_359, Items: 168_791, RatedItems: 168_791, Ratings: 17_359_346, Min: 1, Max: 10,
	},
}

// Sets returns the published sets that are known, smallest MovieLens first.
func Sets() []Set { return slices.Clone(sets) }

// Lookup returns the published set of a name.
func Lookup(name string) (Set, bool) {
	i := slices.IndexFunc(sets, func(p Set) bool { return p.Name == name })
	if i < 0 {
		return Set{}, false
	}
	return sets[i], true
}

func Names() []string {
	var names []string
	for _, p := range sets {
		names = append(names, p.Name)
	}
	return names
}
