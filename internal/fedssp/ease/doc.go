// Package ease has private-ease, a linear recommender from noisy sums: EASE (Steck, WWW 2019) on a
// private Gram matrix. Every user is a client. A run has two releases:
//
//   - counts: how often each item is liked, each user with the norm 1;
//   - pairs: how often two items are liked by one user, for the M items that the counts rank first.
//
// The server adds the likes of public users to both sums, and keeps the eigenvectors of the sum of
// pairs that stand out of the noise. A client scores items by its own user's items, which never
// leave it. Weights of an item are its popularity, its weights from the user's items and, where items
// have public features, the user's taste for these.
//
// release.go has the bounds with their proofs and the server's computation, linear.go the model.
package ease
