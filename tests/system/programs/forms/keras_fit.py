"""Keras' fit: bars that are drawn again and again, and CSVLogger's table."""
import sys

from expect import Expected, pause, value

expected = Expected()
with open("training.csv", "w") as table:
    table.write("epoch,accuracy,loss\n")
    for epoch in range(12):
        print("Epoch %d/12" % (epoch + 1))
        loss, accuracy = value(epoch), value(epoch, 0) / 8
        for batch in range(1, 6):
            sys.stdout.write("\r\x1b[1m%d/5\x1b[0m \x1b[32m%s\x1b[0m\x1b[37m%s\x1b[0m \x1b[1m1s\x1b[0m 10ms/step - accuracy: %.4f - loss: %.4f" % (
                batch, "━" * 4 * batch, "━" * (20 - 4 * batch), accuracy, loss))
            sys.stdout.flush()
            pause()
        print()
        table.write("%d,%r,%r\n" % (epoch, accuracy, loss))
        table.flush()
        expected.point("loss", epoch, loss)
        expected.point("accuracy", epoch, accuracy)
expected.write()
