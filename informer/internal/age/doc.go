// Package age lets the caller of a function of informer.Options say how old its answer may be, and learn how old it is.
// Both are passed in the context, since the functions have no parameter for them. A function that reads from the server
// at each call needs neither.
package age
