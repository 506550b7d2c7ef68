// Package informer is a cache.SharedIndexInformer whose cache is a store.
package informer
