"""The profiles that come with Reprieve, one file each; read by `reprieve.app.profiles`."""
