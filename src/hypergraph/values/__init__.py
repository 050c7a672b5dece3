"""Serializers, codecs and encryption: values to bytes and back, exactly or not at all."""
