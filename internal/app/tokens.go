package app

import (
	"context"
	"time"

	"tundish/internal/deliver"
	"tundish/internal/queue"
	"tundish/internal/secret"
)

// tokens shares access tokens among workers through Redis, sealed.
type tokens struct {
	store *queue.Store
	keys  *secret.Keyring
}

// placeOfToken is under which name a destination's token is sealed: no secret
// of a contract can be called so.
const placeOfToken = "access token"

// newTokens is nil without keys: in the clear no token reaches Redis, and each
// worker has its own.
func newTokens(store *queue.Store, keys *secret.Keyring) deliver.Tokens {
	if keys == nil {
		return nil
	}
	return tokens{store, keys}
}

func (t tokens) Load(ctx context.Context, destination string) (string, error) {
	sealed, err := t.store.Token(ctx, destination)
	if err != nil || sealed == "" {
		return "", err
	}
	value, err := t.keys.Open(destination, placeOfToken, sealed)
	if err != nil {
		return "", nil //nolint:nilerr // of a key that this worker does not have: it is fetched again
	}
	return value, nil
}

func (t tokens) Save(ctx context.Context, destination, value string, lasts time.Duration) error {
	return t.store.SaveToken(ctx, destination, t.keys.Seal(destination, placeOfToken, value), lasts)
}

func (t tokens) Lock(ctx context.Context, destination string, lasts time.Duration) (bool, error) {
	return t.store.LockToken(ctx, destination, lasts)
}

func (t tokens) Unlock(ctx context.Context, destination string) error {
	return t.store.UnlockToken(ctx, destination)
}
